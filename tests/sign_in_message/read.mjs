// Reads sign-in messages from the given file, and prints for each the results of the published libraries.
import { readFileSync } from "node:fs";
import { SiweMessage } from "siwe";
import { parseSiweMessage, validateSiweMessage } from "viem/siwe";
import { verifyMessage } from "viem";

const bySiwe = async ({ message, signature, domain, nonce, time }) => {
  try {
    const read = new SiweMessage(message);
    const { success } = await read.verify({ signature, domain, nonce, time });
    return { success, words: read.prepareMessage() === message, chainId: read.chainId, uri: read.uri };
  } catch (error) {
    return { success: false, error: String(error.error?.type ?? error) };
  }
};

const byViem = async ({ message, signature, domain, nonce, time }) => {
  const read = parseSiweMessage(message);
  const { address, chainId, uri, version } = read;
  const isValid = validateSiweMessage({ message: read, address, domain, nonce, time: new Date(time) });
  const isComplete = version === "1" && Boolean(read.issuedAt && read.expirationTime && read.statement);
  const isSigned = isValid && isComplete && (await verifyMessage({ address, message, signature }));
  return { success: isSigned, chainId, uri };
};

const asked = JSON.parse(readFileSync(process.argv[2], "utf8"));
const readings = asked.map(async (one) => ({ siwe: await bySiwe(one), viem: await byViem(one) }));
console.log(JSON.stringify(await Promise.all(readings)));
