// Bytes, hashes, addresses, and the few protobuf fields of a block header.

import { createHash } from 'node:crypto';
import { utils } from 'tronweb';

export const sha256 = (bytes) => createHash('sha256').update(bytes).digest();

/** The bytes of a text in hexadecimal, with or without `0x`. */
export const bytesOf = (hex) => Buffer.from(hex.replace(/^0x/, ''), 'hex');

export const hexOf = (bytes) => Buffer.from(bytes).toString('hex');

export const hexOfText = (text) => hexOf(Buffer.from(text, 'utf8'));

export const quantity = (number) => `0x${number.toString(16)}`;

/** The Base58 text of an address of 21 bytes in hexadecimal. */
export const base58 = (hex41) => utils.address.fromHex(hex41);

/** The address of 20 bytes that a contract sees. */
export const evmAddress = (hex41) => `0x${hex41.slice(2)}`;

export const tronAddress = (evm) => `41${evm.replace(/^0x/, '').toLowerCase()}`;

const ADDRESS = /^41[0-9a-f]{40}$/;

/** Reads an address in hexadecimal or in Base58; `null` if the text is neither. */
export function readAddress(text) {
  if (typeof text !== 'string') return null;
  const hex = text.replace(/^0x/, '').toLowerCase();
  if (ADDRESS.test(hex)) return hex;
  return utils.address.isAddress(text) ? utils.address.toHex(text).toLowerCase() : null;
}

function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    if (rest < 128n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
}

const bytesField = (number, bytes) => Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);
// Protobuf leaves out a number that is zero.
const numberField = (number, value) => (value ? Buffer.concat([varint(number << 3), varint(value)]) : Buffer.alloc(0));

/** The bytes of `BlockHeader.raw`. tronweb has no such message. */
export function headerBytes({ timestamp, txTrieRoot, parentHash, number, witness_address, version }) {
  return Buffer.concat([
    numberField(1, timestamp),
    bytesField(2, bytesOf(txTrieRoot)),
    bytesField(3, bytesOf(parentHash)),
    numberField(7, number),
    bytesField(9, bytesOf(witness_address)),
    numberField(10, version),
  ]);
}

/** JSON text. A `BigInt` becomes a number, because amounts of the genesis block exceed the numbers of JavaScript. */
export function jsonText(value) {
  const text = JSON.stringify(value, (_, item) => (typeof item === 'bigint' ? `\u0001${item}` : item));
  return text.replace(/"\\u0001(-?\d+)"/g, '$1');
}
