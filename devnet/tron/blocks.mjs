// Blocks: roots, headers, ids and the witnesses that sign them.

import { utils } from 'tronweb';
import { bytesOf, headerBytes, hexOf, sha256 } from './bytes.mjs';
import { signHash, transactionBytes } from './transactions.mjs';

const WITNESS_COUNT = 27;
export const SLOT_MS = 3000;
const BLOCK_VERSION = 34;
const NO_TRANSACTIONS = '0'.repeat(64);

/** A private key that is the same on every start and worthless on any other chain. */
export const keyOf = (label) => hexOf(sha256(Buffer.from(`local Tron chain, ${label}`)));

/** The address of a private key, in hexadecimal. */
export const addressOfKey = (key) => hexOf(utils.crypto.getAddressFromPriKey([...bytesOf(key)]));

const witnessKeys = Array.from({ length: WITNESS_COUNT }, (_, index) => keyOf(`witness ${index}`));
const witnesses = [];

/** The witness of a slot. Addresses are computed on demand, because all 27 would delay the start. */
function witnessAt(timestamp) {
  const index = Math.floor(timestamp / SLOT_MS) % WITNESS_COUNT;
  witnesses[index] ??= { key: witnessKeys[index], address: addressOfKey(witnessKeys[index]) };
  return witnesses[index];
}

/** The addresses of all witnesses, in hexadecimal. */
export const witnessAddresses = () => witnessKeys.map((_, index) => witnessAt(index * SLOT_MS).address);

/** The root over whole transactions. A node without a partner moves up unchanged. */
function transactionRoot(transactions) {
  let level = transactions.map((transaction) => sha256(transactionBytes(transaction)));
  if (level.length === 0) return NO_TRANSACTIONS;
  while (level.length > 1) {
    const pairs = [];
    for (let at = 0; at < level.length; at += 2) {
      pairs.push(at + 1 < level.length ? sha256(Buffer.concat([level[at], level[at + 1]])) : level[at]);
    }
    level = pairs;
  }
  return hexOf(level[0]);
}

/** The id of a block: its number in 8 bytes, then the end of the header's hash. */
function blockId(header) {
  const id = sha256(headerBytes(header));
  id.writeBigUInt64BE(BigInt(header.number ?? 0));
  return hexOf(id);
}

/** A complete block. `signingKey` replaces the key of the witness, so that the signature is not the witness's. */
export function buildBlock({ parentHash, number, timestamp, transactions = [], infos = [], signingKey }) {
  const witness = witnessAt(timestamp);
  const header = {
    number,
    txTrieRoot: transactionRoot(transactions),
    witness_address: witness.address,
    parentHash,
    version: BLOCK_VERSION,
    timestamp,
  };
  const signature = signHash(sha256(headerBytes(header)), signingKey ?? witness.key);
  return { number, id: blockId(header), header, signature, transactions, infos };
}
