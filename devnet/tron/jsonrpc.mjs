// Tron's `/jsonrpc`, which is a part of Ethereum's JSON-RPC.

import { utils } from 'tronweb';
import { contracts } from './anvil.mjs';
import { evmAddress, quantity, readAddress, tronAddress } from './bytes.mjs';
import { outcomeOf } from './chain.mjs';

const LARGEST_RANGE = 5000;
const LARGEST_RESULT = 10_000;
const LARGEST_TOPICS = 4;
const INVALID = -32602;
/** Selector of `Error(string)`. */
const ERROR_SELECTOR = '08c379a0';
const coder = utils.ethersUtils.AbiCoder.defaultAbiCoder();
const word = (digits) => `0x${'0'.repeat(digits)}`;

class RpcError extends Error {
  constructor(message, code = INVALID, data = '{}') {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** A block number or tag. */
function blockNumber({ view }, text) {
  if (text === 'latest') return view.headNumber;
  if (text === 'earliest') return 0;
  if (text === 'finalized') return view.solidNumber;
  if (text === 'pending') throw new RpcError('TAG pending not supported');
  if (typeof text !== 'string' || !/^0x[0-9a-f]+$/i.test(text)) throw new RpcError('invalid block number');
  return Number(text);
}

/** An address with or without 41 at its start; contracts see 20 bytes. */
function evmAddressOf(text) {
  const hex = plainHex(text ?? '');
  if (/^[0-9a-f]{40}$/.test(hex)) return hex;
  const address = readAddress(hex);
  if (!address) throw new RpcError(`invalid address: ${text}`);
  return address.slice(2);
}

function onlyLatest(tag) {
  if (tag === 'latest') return;
  if (['earliest', 'pending', 'finalized'].includes(tag)) {
    throw new RpcError('TAG [earliest | pending | finalized] not supported');
  }
  const isNumber = /^0x[0-9a-f]+$/i.test(tag ?? '');
  throw new RpcError(isNumber ? 'QUANTITY not supported, just support TAG as latest' : 'invalid block number');
}

function logRange(context, { fromBlock, toBlock, blockHash }) {
  const { view } = context;
  if (blockHash !== undefined) {
    if (fromBlock !== undefined || toBlock !== undefined) {
      throw new RpcError('cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other');
    }
    const block = view.blockById(plainHex(blockHash));
    if (!block) throw new RpcError('invalid blockHash');
    return [block.number, block.number];
  }
  const head = view.headNumber;
  const to = toBlock ? blockNumber(context, toBlock) : Infinity;
  const from = fromBlock ? blockNumber(context, fromBlock) : Math.min(to, head);
  if (from > to) throw new RpcError('please verify: fromBlock <= toBlock');
  if (Math.min(to, head) - from > LARGEST_RANGE) throw new RpcError(`exceed max block range: ${LARGEST_RANGE}`);
  return [from, to];
}

/** Lower-case hexadecimal without `0x`. */
const plainHex = (text) => String(text).replace(/^0x/, '').toLowerCase();

const listOf = (value) => (Array.isArray(value) ? value : [value]);

function getLogs(context, [filter = {}]) {
  const [from, to] = logRange(context, filter);
  const addresses = filter.address === undefined ? [] : listOf(filter.address).map(evmAddressOf);
  const topics = filter.topics ?? [];
  if (topics.length > LARGEST_TOPICS) throw new RpcError(`topics size should be <= ${LARGEST_TOPICS}`);
  const wanted = topics.map((topic) => (topic === null ? null : listOf(topic).map(plainHex)));
  const found = [];
  for (const { block, index, id, log, logIndex } of context.view.events(from, to)) {
    if (addresses.length > 0 && !addresses.includes(log.address)) continue;
    if (!wanted.every((choices, at) => !choices?.length || choices.includes(log.topics[at]))) continue;
    found.push({
      logIndex: quantity(logIndex),
      transactionIndex: quantity(index),
      transactionHash: `0x${id}`,
      blockHash: `0x${block.id}`,
      blockNumber: quantity(block.number),
      address: `0x${log.address}`,
      data: `0x${log.data}`,
      topics: log.topics.map((topic) => `0x${topic}`),
      removed: false,
    });
    if (found.length > LARGEST_RESULT) throw new RpcError(`query returned more than ${LARGEST_RESULT} results`, -32005);
  }
  return found;
}

function blockResult(context, block, full) {
  if (!block) return null;
  const { header, transactions } = block;
  const infos = context.view.infos(block.number);
  const used = infos.reduce((sum, { receipt }) => sum + (receipt.energy_usage_total ?? 0), 0);
  return {
    number: quantity(block.number),
    hash: `0x${block.id}`,
    parentHash: `0x${header.parentHash}`,
    nonce: word(16),
    sha3Uncles: word(64),
    logsBloom: word(512),
    transactionsRoot: `0x${header.txTrieRoot}`,
    stateRoot: '0x',
    receiptsRoot: word(64),
    miner: block.number === 0 ? word(40) : evmAddress(header.witness_address),
    difficulty: '0x0',
    totalDifficulty: '0x0',
    extraData: '0x',
    size: quantity(transactions.reduce((sum, { raw }) => sum + raw.length + 70, 200)),
    gasLimit: quantity(transactions.reduce((sum, { json }) => sum + (json.fee_limit ?? 0), 0)),
    gasUsed: quantity(used),
    timestamp: quantity(Math.floor((header.timestamp ?? 0) / 1000)),
    transactions: transactions.map((transaction, index) =>
      full ? transactionResult(context, { block, index, transaction, info: infos[index] }) : `0x${transaction.id}`,
    ),
    uncles: [],
    baseFeePerGas: '0x0',
    mixHash: word(64),
  };
}

function transactionResult({ view }, { block, index, transaction, info }) {
  const { value, signatures, id } = transaction;
  const [signature = ''] = signatures;
  const recovery = Number.parseInt(signature.slice(128), 16) || 0;
  return {
    blockHash: `0x${block.id}`,
    blockNumber: quantity(block.number),
    from: evmAddress(value.owner_address),
    gas: quantity(info?.receipt.energy_usage_total ?? 0),
    gasPrice: quantity(view.chain.energyPrice),
    hash: `0x${id}`,
    input: `0x${value.data ?? ''}`,
    nonce: word(16),
    to: evmAddress(value.contract_address ?? value.to_address),
    transactionIndex: quantity(index),
    type: '0x0',
    value: quantity(value.call_value ?? value.amount ?? 0),
    v: quantity(recovery < 27 ? recovery + 27 : recovery),
    r: `0x${signature.slice(0, 64)}`,
    s: `0x${signature.slice(64, 128)}`,
  };
}

function receiptResult(context, found) {
  const { block, index, transaction, info } = found;
  const { energyPrice } = context.view.chain;
  const used = quantity(info.receipt.energy_usage_total ?? 0);
  const ofBlock = getLogs(context, [{ blockHash: block.id }]);
  const logs = ofBlock.filter(({ transactionHash }) => transactionHash === `0x${info.id}`);
  return {
    blockHash: `0x${block.id}`,
    blockNumber: quantity(block.number),
    transactionIndex: quantity(index),
    transactionHash: `0x${info.id}`,
    from: evmAddress(transaction.value.owner_address),
    to: evmAddress(transaction.value.contract_address ?? transaction.value.to_address),
    cumulativeGasUsed: used,
    effectiveGasPrice: quantity(energyPrice),
    gasUsed: used,
    contractAddress: null,
    logs,
    logsBloom: word(512),
    status: info.result === 'FAILED' ? '0x0' : '0x1',
    type: '0x0',
  };
}

/** The text of a revert, as java-tron appends it to the message. */
function reasonOf(output) {
  if (!output.startsWith(ERROR_SELECTOR)) return '';
  const [reason] = coder.decode(['string'], `0x${output.slice(ERROR_SELECTOR.length)}`);
  return `: ${reason}`;
}

async function traced({ view, anvil }, { from, to, data, input, value = '0x0' }) {
  const target = evmAddressOf(to);
  if (!contracts.has(tronAddress(target))) throw new RpcError('Smart contract is not exist.', -32600);
  const sender = `0x${evmAddressOf(from ?? word(40))}`;
  const call = { from: sender, to: `0x${target}`, data: data ?? input ?? '0x', value: Number(value) };
  const outcome = outcomeOf(await anvil.trace(call, view.evmBlock(false)));
  if (outcome.message) throw new RpcError(outcome.message + reasonOf(outcome.output), -32000);
  return outcome;
}

const METHODS = {
  web3_clientVersion: () => 'TRON/v4.8.0/Linux/Java1.8',
  net_version: (context) => METHODS.eth_chainId(context),
  net_listening: () => true,
  eth_chainId: ({ view }) => `0x${view.block(0).id.slice(-8)}`,
  eth_blockNumber: ({ view }) => quantity(view.headNumber),
  eth_syncing: () => false,
  eth_accounts: () => [],
  eth_gasPrice: ({ view }) => quantity(view.chain.energyPrice),
  eth_getBalance: ({ view }, [address, tag]) => {
    onlyLatest(tag);
    return quantity(view.chain.accounts.get(tronAddress(evmAddressOf(address)))?.balance ?? 0);
  },
  eth_getCode: (_, [address, tag]) => {
    onlyLatest(tag);
    return `0x${contracts.get(tronAddress(evmAddressOf(address)))?.code ?? ''}`;
  },
  eth_call: async (context, [call = {}, tag = 'latest']) => {
    onlyLatest(tag);
    return `0x${(await traced(context, call)).output}`;
  },
  eth_estimateGas: async (context, [call = {}]) => quantity((await traced(context, call)).energy),
  eth_getLogs: getLogs,
  eth_getBlockByNumber: (context, [tag, full]) =>
    blockResult(context, context.view.block(blockNumber(context, tag)), full),
  eth_getBlockByHash: (context, [hash, full]) =>
    blockResult(context, context.view.blockById(plainHex(hash)), full),
  eth_getTransactionByHash: (context, [hash]) => {
    const found = context.view.find(plainHex(hash));
    return found ? transactionResult(context, found) : null;
  },
  eth_getTransactionReceipt: (context, [hash]) => {
    const found = context.view.find(plainHex(hash));
    return found ? receiptResult(context, found) : null;
  },
};

async function answer(context, { id = null, method, params = [] } = {}) {
  try {
    if (!Object.hasOwn(METHODS, String(method))) {
      throw new RpcError(`the method ${method} does not exist/is not available`, -32601);
    }
    return { jsonrpc: '2.0', id, result: await METHODS[method](context, params) };
  } catch (error) {
    const { code = -32000, message, data = '{}' } = error;
    return { jsonrpc: '2.0', id, error: { code, message, data } };
  }
}

/** The response to a request or to a batch. */
export const jsonRpc = (context, body) =>
  Array.isArray(body) ? Promise.all(body.map((request) => answer(context, request))) : answer(context, body);
