import { createHmac, timingSafeEqual } from "node:crypto";

/** `body`: the raw bytes; `header`: x-service-signature; `next`: x-service-signature-next, if present. */
export function isGenuine(secret: string, body: Uint8Array, header: string, next: string = ""): boolean {
  if (secret === "") return false; // Anyone can sign with an empty secret.
  const expected = Buffer.from(createHmac("sha256", secret).update(body).digest("hex"));
  return `${header} ${next}`.split(" ").some((signature) => {
    const given = Buffer.from(signature);
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}
