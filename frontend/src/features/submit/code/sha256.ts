/** SHA-256 of bytes that come piece by piece. The browser's own is missing on pages without TLS. */

const K = new Uint32Array(64);
const START = new Uint32Array(8);

// The first bits of the fractional parts of cube and square roots of the first primes.
(() => {
  const fraction = (root: number): number => ((root - Math.floor(root)) * 2 ** 32) >>> 0;
  let found = 0;
  for (let n = 2; found < 64; n += 1) {
    let isPrime = true;
    for (let d = 2; d * d <= n; d += 1) if (n % d === 0) isPrime = false;
    if (!isPrime) continue;
    if (found < 8) START[found] = fraction(Math.sqrt(n));
    K[found] = fraction(Math.cbrt(n));
    found += 1;
  }
})();

const turned = (x: number, by: number): number => (x >>> by) | (x << (32 - by));

export class Sha256 {
  private readonly state = START.slice();
  private readonly block = new Uint8Array(64);
  private readonly words = new Uint32Array(64);
  private filled = 0;
  private length = 0;

  update(data: Uint8Array): void {
    this.length += data.length;
    let at = 0;
    while (at < data.length) {
      const take = Math.min(64 - this.filled, data.length - at);
      this.block.set(data.subarray(at, at + take), this.filled);
      this.filled += take;
      at += take;
      if (this.filled === 64) this.mix();
    }
  }

  /** The digest; nothing can be added afterwards. */
  hex(): string {
    const bits = this.length * 8;
    this.block[this.filled] = 0x80;
    this.filled += 1;
    if (this.filled > 56) {
      this.block.fill(0, this.filled);
      this.mix();
    }
    this.block.fill(0, this.filled);
    const view = new DataView(this.block.buffer);
    view.setUint32(56, Math.floor(bits / 2 ** 32));
    view.setUint32(60, bits >>> 0);
    this.mix();
    return [...this.state].map((word) => word.toString(16).padStart(8, "0")).join("");
  }

  private mix(): void {
    const { words: w, state } = this;
    const view = new DataView(this.block.buffer);
    for (let i = 0; i < 16; i += 1) w[i] = view.getUint32(i * 4);
    for (let i = 16; i < 64; i += 1) {
      const [x, y] = [w[i - 15] as number, w[i - 2] as number];
      const low = turned(x, 7) ^ turned(x, 18) ^ (x >>> 3);
      const high = turned(y, 17) ^ turned(y, 19) ^ (y >>> 10);
      w[i] = (w[i - 16] as number) + low + (w[i - 7] as number) + high;
    }
    let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
    for (let i = 0; i < 64; i += 1) {
      const high = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
      const first = (h + high + ((e & f) ^ (~e & g)) + (K[i] as number) + (w[i] as number)) | 0;
      const low = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
      const second = (low + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    for (const [i, value] of [a, b, c, d, e, f, g, h].entries()) state[i] = (state[i] as number) + value;
    this.filled = 0;
  }
}
