/** A bowl with a seam of gold. */
export function Seal() {
  return (
    <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true" class="seal">
      <path class="bowl" d="M3 9h26c0 11-5.5 17-13 17S3 20 3 9z" />
      <path class="gold" d="M19 9l-4 5.5 4 3-5 8.5" />
    </svg>
  );
}
