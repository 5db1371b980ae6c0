/** The product's mark. */
export function Mark() {
  return (
    <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden>
      <rect width="32" height="32" rx="7" fill="var(--brand)" />
      <g fill="var(--on-filled)">
        <rect x="6" y="18" width="4" height="8" rx="1" />
        <rect x="12" y="13" width="4" height="13" rx="1" />
        <rect x="18" y="9" width="4" height="17" rx="1" />
        <rect x="24" y="6" width="3" height="20" rx="1" />
      </g>
    </svg>
  );
}
