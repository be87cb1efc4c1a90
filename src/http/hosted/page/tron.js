// Tron: finds wallets (TIP-6963, `window.tron`, and the older `window.tronLink`), and checks what they sign.
//
// A wallet only signs; the service sends. Bytes, id and JSON of a transaction have to say what the page shows. A
// signature is valid until its transaction expires, so the page does not ask for another one before.

import * as evm from './sign.js';
import { broadcast, hexOf, now } from './state.js';
import { decimal, require, verify as compare } from './verify.js';

const { pause, Trouble } = evm;
const DECIMALS = 6;
const TYPE = 'TriggerSmartContract';
const TYPE_NUMBER = 31;
const TYPE_URL = `type.googleapis.com/protocol.${TYPE}`;
/** How far ahead the expiration of a transaction may be. */
const VALID_MS = 300_000;
const RETRY_MS = 2000;
const WORDS_MAX = 16;
const DIGITS = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const ADDRESS = new RegExp(`^T[${DIGITS}]{33}$`);

const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const sha256 = async (hex) => hexOf(new Uint8Array(await crypto.subtle.digest('SHA-256', bytesOf(hex))));

/** The Base58 text of an address of 20 bytes. */
async function textOf(address) {
  const body = '41' + address;
  let rest = BigInt('0x' + body + (await sha256(await sha256(body))).slice(0, 8));
  let text = '';
  for (; rest; rest /= 58n) text = DIGITS[Number(rest % 58n)] + text;
  return text;
}

// Transactions

/** The fields of each message by number; `#` marks integers. */
const RAW = { 1: 'ref_block_bytes', 4: 'ref_block_hash', 8: '#expiration', 11: 'contract', 14: '#timestamp', 18: '#fee_limit' };
const CONTRACT = { 1: '#type', 2: 'parameter' };
const ANY = { 1: 'type_url', 2: 'value' };
const CALL = { 1: 'owner_address', 2: 'contract_address', 4: 'data' };

/** Decodes a Protobuf message of exactly these fields in this order, with integers in their shortest form. */
function decode(hex, fields) {
  const bytes = bytesOf(hex);
  let at = 0;
  const integer = () => {
    for (let [number, place] = [0, 1]; ; place *= 128) {
      const byte = bytes[at++];
      require(byte !== undefined && place < 2 ** 49, 'unknown');
      number += (byte & 127) * place;
      if (byte < 128) {
        require(byte || place === 1, 'unknown');
        return number;
      }
    }
  };
  const part = () => {
    const length = integer();
    const found = bytes.subarray(at, (at += length));
    require(found.length === length, 'unknown');
    return hexOf(found);
  };
  const found = Object.entries(fields).map(([number, name]) => {
    const isInteger = name[0] === '#';
    require(integer() === number * 8 + (isInteger ? 0 : 2), 'unknown');
    return isInteger ? [name.slice(1), integer()] : [name, part()];
  });
  require(at === bytes.length, 'unknown');
  return Object.fromEntries(found);
}

const isSame = (one, other) =>
  one === other ||
  (Object(one) === one &&
    Object(other) === other &&
    Object.keys(one).length === Object.keys(other).length &&
    Object.keys(one).every((key) => isSame(one[key], other[key])));

/** The fields in the bytes of a transaction; a Mismatch unless it is one call without coins, and id and JSON fit. */
export async function open(transaction) {
  const { txID, raw_data, raw_data_hex } = transaction ?? {};
  require(/^([0-9a-f]{2})+$/.test(raw_data_hex), 'unknown');
  const { contract, ...raw } = decode(raw_data_hex, RAW);
  const { type, parameter } = decode(contract, CONTRACT);
  const any = decode(parameter, ANY);
  require(type === TYPE_NUMBER && any.type_url === hexOf(new TextEncoder().encode(TYPE_URL)), 'unknown');
  const value = decode(any.value, CALL);
  const json = { ...raw, contract: [{ parameter: { value, type_url: TYPE_URL }, type: TYPE }] };
  require(isSame(json, raw_data) && txID === (await sha256(raw_data_hex)), 'form');
  return { ...raw, ...value };
}

/** As in `verify.js`; also compares each step with its transaction, and adds its fee limit and expiration. */
export async function verify(details, { steps, asked }, payer) {
  const texts = new Map();
  for (const { data } of steps) {
    for (const word of data.slice(10).match(/.{64}/g)?.slice(0, WORDS_MAX) ?? []) {
      const [, address] = /^0{24}([0-9a-f]{40})$/.exec(word) ?? [];
      if (address) texts.set('0x' + address, await textOf(address));
    }
  }
  // The bytes of an address; for a masked one, those of a fitting address of the calldata.
  const read = async (text) => {
    const [head, tail] = text.split('…');
    if (tail) return [...texts].find(([, whole]) => whole.startsWith(head) && whole.endsWith(tail))?.[0];
    if (!ADDRESS.test(text)) return null;
    const number = [...text].reduce((sum, digit) => sum * 58n + BigInt(DIGITS.indexOf(digit)), 0n);
    const address = number.toString(16).slice(2, 42);
    return (await textOf(address)) === text ? '0x' + address : null;
  };
  const plain = JSON.stringify({ details, asked, payer, steps: steps.map(({ to, data, value }) => ({ to, data, value })) });
  const bytes = new Map();
  for (const [, text] of plain.matchAll(/"(T[^"]{9,33})"/g)) bytes.set(text, await read(text));
  const shown = JSON.parse(plain, (_, value) => bytes.get(value) ?? value);
  const calls = compare(shown.details, shown, shown.payer);
  const checked = calls.map(async ({ to, data, spender, ...call }, index) => {
    const { transaction, to: contract } = steps[index];
    const raw = await open(transaction);
    const is = (hex, address) => '0x' + hex === address.replace('0x', '0x41');
    require(is(raw.owner_address, shown.payer), 'owner');
    require(ADDRESS.test(contract) && is(raw.contract_address, to), 'contract');
    require('0x' + raw.data === data, 'form');
    const left = raw.expiration - now();
    // Transactions refer to the newest block, which is old while the chain stands still.
    if (left <= 0) throw new Trouble('connection');
    require(left < VALID_MS, 'deadline');
    const feeLimit = decimal(raw.fee_limit, DECIMALS);
    return { ...call, to: contract, data, spender: texts.get(spender), feeLimit, until: raw.expiration };
  });
  return Promise.all(checked);
}

// Wallets

const LOCKED = new Trouble('locked');

/** A wallet at `window.tronLink`, which has other methods and events. */
const older = (link) => ({
  get tronWeb() {
    return link.tronWeb || globalThis.tronWeb;
  },
  on: (_, changed) =>
    addEventListener('message', ({ source, data }) => {
      const { action, data: news } = data?.message ?? {};
      if (source === window && /^(accountsChanged|setAccount)$/.test(action)) changed([news?.address || null]);
    }),
  async request({ method }) {
    if (method !== 'eth_requestAccounts') throw { code: 4200 };
    const { code, message } = (await link.request({ method: 'tron_requestAccounts' })) || {};
    // 4000: a request is already open.
    if (code !== 200) throw code === 4000 ? { code: -32002, message: 'already pending' } : code ? { code, message } : LOCKED;
    return [this.tronWeb?.defaultAddress?.base58];
  },
});

export const discover = (found) =>
  evm.discover(found, {
    standard: 'TIP6963',
    isFit: () => true,
    look: () => globalThis.tron ?? (globalThis.tronLink && older(globalThis.tronLink)),
    ready: 'tronLink#initialized',
  });

export function appLinks(url) {
  const param = JSON.stringify({ url, action: 'open', protocol: 'tronlink', version: '1.0' });
  return [
    ['TronLink', `tronlinkoutside://pull.activity?param=${encodeURIComponent(param)}`],
    ['Trust Wallet', `https://link.trustwallet.com/open_url?coin_id=195&url=${encodeURIComponent(url)}`],
    ['TronLink', 'https://www.tronlink.org/', 'install'],
  ];
}

export async function account({ provider }, isQuiet) {
  if (isQuiet) return provider.tronWeb?.defaultAddress?.base58 || null;
  const [first] = (await provider.request({ method: 'eth_requestAccounts' })) ?? [];
  if (!ADDRESS.test(first)) throw first ? new Trouble('network') : LOCKED;
  return first;
}

/** Whether a wallet is on the network, as far as it tells: by chain id, or by the node of a test network. */
export async function isOnNetwork(wallet, { chainId }) {
  const id = await evm.soon(wallet, 'eth_chainId');
  return id ? Number(id) === chainId : !/shasta|nile/i.test(wallet.provider.tronWeb?.fullNode?.host);
}

export const toNetwork = (wallet, network) => evm.toNetwork(wallet, network, isOnNetwork);

// Only the service reports on transactions.
export const canBundle = () => false;
export const nextTurn = () => null;
export const isPlain = () => false;
export const outcome = () => new Promise(() => {});

/** What a wallet says in a text, which counts, since wallets only sign. */
function said(error) {
  if (error instanceof Trouble) return error;
  const text = error?.message ?? error;
  if (/declined by user|user (rejected|denied|cancel)|^canc(el|le)$|was cancell?ed/i.test(text)) return new Trouble('rejected');
  return error?.code === 4100 || /\b(un)?lock(ed)?\b/i.test(text) ? LOCKED : null;
}

/** As in `sign.js`. */
export const troubleOf = (error) => said(error) ?? evm.troubleOf(error);
export const refusalOf = (error) => said(error) ?? evm.refusalOf(error);

/** A trouble after which the page keeps the attempt until it expires. */
export const held = (kind, detail) => Object.assign(new Trouble(kind, detail), { isHeld: true });

/** Signs and sends; returns the hash. A service that does not respond may have sent it, and gets it again. */
export async function send({ provider }, from, network, { transaction }, signed) {
  const { txID, raw_data, raw_data_hex } = transaction;
  const bare = { txID, raw_data, raw_data_hex };
  const hash = '0x' + txID;
  const isLate = () => now() >= raw_data.expiration;
  let answer;
  try {
    answer = await provider.tronWeb.trx.sign(structuredClone({ visible: false, ...bare }));
  } catch (error) {
    throw isLate() ? held('late') : error;
  }
  const signature = [answer?.signature].flat().map((one) => String(one).replace(/^0x/, ''));
  const isUnchanged = answer?.txID === txID && answer.raw_data_hex === raw_data_hex;
  if (!isUnchanged || signature.length !== 1 || !/^[0-9a-f]{130}$/i.test(signature[0])) throw held('changed');
  try {
    await signed();
  } catch (error) {
    throw error.kind === 'taken' ? held('taken') : error;
  }
  if (isLate()) throw held('late');
  for (let isUnsure = false; ; isUnsure = true) {
    try {
      await broadcast({ ...bare, signature });
      return hash;
    } catch ({ kind, detail }) {
      const isOpen = kind === 'connection';
      if (isUnsure && (!isOpen || isLate())) return hash;
      if (!isOpen) throw kind === 'other' ? held('relay', detail) : new Trouble(kind, detail);
      await pause(RETRY_MS);
    }
  }
}
