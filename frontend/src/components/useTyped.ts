import { useDebouncedValue } from "@mantine/hooks";
import { useEffect, useRef, useState } from "react";

/**
 * The text of a field that goes into the address when typing has stopped, and that follows the address when that
 * changes otherwise: by the back button, a saved view, "clear the filters".
 */
export function useTyped(
  inAddress: string | undefined,
  delayMs: number,
  write: (text: string | undefined) => void,
): [string, (text: string) => void] {
  const [text, setText] = useState(inAddress ?? "");
  const [settled] = useDebouncedValue(text, delayMs);
  /** What was written and has not come back yet; until then the address is behind what is typed. */
  const written = useRef<string[]>([]);
  useEffect(() => {
    if ((inAddress ?? "") === settled) return;
    written.current.push(settled);
    write(settled || undefined);
    // oxlint-disable-next-line react/exhaustive-deps -- only typing moves the text into the address
  }, [settled]);
  useEffect(() => {
    const at = written.current.indexOf(inAddress ?? "");
    if (at >= 0) written.current.splice(0, at + 1);
    else setText(inAddress ?? "");
  }, [inAddress]);
  return [text, setText];
}
