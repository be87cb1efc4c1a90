// The lies that one node can tell. Every node has its own switches, and the chain itself stays true.

import { utils } from 'tronweb';
import { FEE_PROXY } from './anvil.mjs';
import { addressOfKey, buildBlock, keyOf } from './blocks.mjs';
import { bytesOf, evmAddress, readAddress } from './bytes.mjs';
import { NILE_GENESIS_ID } from './genesis.mjs';
import { buildTransaction, readJson, signHash } from './transactions.mjs';

/** Every lie with the value that switches it on if the control call says `true`. */
export const LIES = {
  // Logs and receipts.
  missingLogs: {},
  forgedLogs: {},
  forgedLog: {},
  changedResult: {},
  emptyInfos: {},
  // Blocks. `block` is a number; without it the lie is about every block from 1 on.
  otherHeader: {},
  wrongId: {},
  changedTransaction: {},
  omittedTransaction: {},
  changedContractRet: {},
  unknownBlocks: {},
  wrongGenesis: {},
  forgedBlock: {},
  // Responses.
  errorInOk: { message: 'class java.lang.IllegalAccessException : lack of computing resources' },
  quota: { status: 429 },
  slow: { ms: 1000 },
  // Broadcasts.
  lostBroadcast: {},
  broadcastCode: { code: 'SERVER_BUSY', message: 'Server busy.' },
};

const AMOUNT_DIGITS = 64;
const NO_ADDRESS = `41${'0'.repeat(40)}`;
const STRANGER = keyOf('stranger');
const coder = utils.ethersUtils.AbiCoder.defaultAbiCoder();

const concerns = (lie, number) => lie && number > 0 && (lie.block === undefined || lie.block === number);

/** The data of an event or call whose amount, the third word after the selector, is ten times as large. */
function raisedAmount(data, selectorDigits) {
  const at = selectorDigits + 2 * AMOUNT_DIGITS;
  const amount = BigInt(`0x${data.slice(at, at + AMOUNT_DIGITS) || '0'}`) * 10n;
  return data.slice(0, at) + amount.toString(16).padStart(AMOUNT_DIGITS, '0') + data.slice(at + AMOUNT_DIGITS);
}

/** The same call with a larger amount and the old signature. */
function changedTransaction(transaction) {
  const raw_data = structuredClone(transaction.json);
  const { value } = raw_data.contract[0].parameter;
  if (value.data?.length >= 8 + 3 * AMOUNT_DIGITS) value.data = raisedAmount(value.data, 8);
  else raw_data.timestamp = (raw_data.timestamp ?? 0) + 1;
  const changed = readJson({ raw_data, signature: transaction.signatures });
  return { ...changed, contractRet: transaction.contractRet };
}

/** A block as the node shows it. */
export function shownBlock(block, lies) {
  const { number } = block;
  if (number === 0) return lies.wrongGenesis ? { ...block, id: NILE_GENESIS_ID } : block;
  let shown = block;
  if (concerns(lies.otherHeader, number)) {
    const { parentHash, timestamp } = block.header;
    const { transactions, infos } = block;
    shown = buildBlock({ parentHash, number, timestamp: timestamp - 1000, transactions, infos });
  }
  if (concerns(lies.wrongId, number)) {
    shown = { ...shown, id: shown.id.slice(0, -2) + (shown.id.endsWith('00') ? '01' : '00') };
  }
  if (concerns(lies.changedTransaction, number)) {
    shown = { ...shown, transactions: shown.transactions.map(changedTransaction) };
  }
  if (concerns(lies.omittedTransaction, number)) shown = { ...shown, transactions: shown.transactions.slice(1) };
  if (concerns(lies.changedContractRet, number)) {
    const transactions = shown.transactions.map((transaction) => ({
      ...transaction,
      contractRet: transaction.contractRet === 'SUCCESS' ? 'REVERT' : 'SUCCESS',
    }));
    shown = { ...shown, transactions };
  }
  return shown;
}

/** The receipt of a transaction as the node shows it. */
export function shownInfo(info, lies) {
  let shown = info;
  if (concerns(lies.forgedLog, info.blockNumber) && info.log) {
    const log = info.log.map((entry, index) => {
      const isLast = index === info.log.length - 1;
      const hasAmount = entry.data.length >= 3 * AMOUNT_DIGITS;
      return isLast && hasAmount ? { ...entry, data: raisedAmount(entry.data, 0) } : entry;
    });
    shown = { ...shown, log };
  }
  if (concerns(lies.changedResult, info.blockNumber) && info.receipt.result) {
    const succeeded = info.receipt.result === 'SUCCESS';
    const { result: _, resMessage: __, ...rest } = shown;
    const receipt = { ...info.receipt, result: succeeded ? 'REVERT' : 'SUCCESS' };
    shown = succeeded ? { ...rest, receipt, result: 'FAILED' } : { ...rest, receipt };
  }
  return shown;
}

const topicOf = (signature) => utils.ethersUtils.id(signature).slice(2);
const PAYMENT_EVENT = topicOf('TransferWithReferenceAndFee(address,address,uint256,bytes,uint256,address)');
const TRANSFER = topicOf('Transfer(address,address,uint256)');
const addressWord = (hex41) => hex41.slice(2).padStart(AMOUNT_DIGITS, '0');
const amountWord = (amount) => BigInt(amount).toString(16).padStart(AMOUNT_DIGITS, '0');

function forgedPayment({ token, payer, to, amount, reference, feeAmount = '0', feeAddress }, parent) {
  const key = keyOf('forger');
  const addresses = { token, to, feeAddress: feeAddress ?? NO_ADDRESS, payer: payer ?? addressOfKey(key) };
  for (const name of Object.keys(addresses)) {
    const address = readAddress(addresses[name]);
    if (!address) throw new Error(`forgedBlock.${name} must be an address`);
    addresses[name] = address;
  }
  const types = ['address', 'address', 'uint256', 'bytes', 'uint256', 'address'];
  const [tokenWord, toWord, feeWord] = [addresses.token, addresses.to, addresses.feeAddress].map(evmAddress);
  const referenceBytes = `0x${reference.replace(/^0x/, '')}`;
  const values = [tokenWord, toWord, amount, referenceBytes, feeAmount, feeWord];
  const data = `c219a14d${coder.encode(types, values).slice(2)}`;
  const value = { owner_address: addressOfKey(key), contract_address: FEE_PROXY, data };
  const transaction = buildTransaction('TriggerSmartContract', value, parent, { feeLimit: 300_000_000 });
  transaction.signatures = [signHash(bytesOf(transaction.id), key)];
  transaction.contractRet = 'SUCCESS';
  const transfer = {
    address: addresses.token.slice(2),
    topics: [TRANSFER, addressWord(addresses.payer), addressWord(addresses.to)],
    data: amountWord(amount),
  };
  const event = {
    address: FEE_PROXY.slice(2),
    topics: [PAYMENT_EVENT, utils.ethersUtils.keccak256(referenceBytes).slice(2)],
    data:
      addressWord(addresses.token) +
      addressWord(addresses.to) +
      amountWord(amount) +
      amountWord(feeAmount) +
      addressWord(addresses.feeAddress),
  };
  return { transaction, log: [transfer, event] };
}

/**
 * Blocks that are consistent in themselves and credit a payment that never happened: one with the payment, and then
 * empty ones, so that the payment looks final. Witnesses did not sign them, unless `witnessKeys` is set.
 */
export function forgedBlocks(chain, { number, depth = 3, witnessKeys = false, ...payment }) {
  const first = number ?? chain.head.number + 1;
  const parent = chain.blocks[first - 1];
  if (!parent || first < 1) throw new Error('forgedBlock.number must be at most one above the newest block');
  const signingKey = witnessKeys ? undefined : STRANGER;
  const { transaction, log } = forgedPayment(payment, parent);
  const timestamp = (parent.header.timestamp ?? 0) + chain.stepMs;
  const receipt = { energy_fee: 9_000_000, energy_usage_total: 90_000, net_fee: 600_000, result: 'SUCCESS' };
  const info = {
    id: transaction.id,
    fee: 9_600_000,
    blockNumber: first,
    blockTimeStamp: timestamp,
    contractResult: [''],
    contract_address: FEE_PROXY,
    receipt,
    log,
  };
  const place = { parentHash: parent.id, number: first, timestamp };
  const blocks = [buildBlock({ ...place, transactions: [transaction], infos: [info], signingKey })];
  while (blocks.length <= depth) {
    const { id, header } = blocks.at(-1);
    const next = { parentHash: id, number: header.number + 1, timestamp: header.timestamp + chain.stepMs, signingKey };
    blocks.push(buildBlock(next));
  }
  return blocks;
}

/** The event of a payment that no block contains, for `eth_getLogs`. */
export function forgedEvent(payment, block) {
  const { transaction, log } = forgedPayment(payment, block);
  return { id: transaction.id, log: log[1] };
}
