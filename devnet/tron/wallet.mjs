// Tron's HTTP API below `/wallet/` and `/walletsolidity/`.

import { utils } from 'tronweb';
import { FREE_BANDWIDTH } from './accounts.mjs';
import { contracts } from './anvil.mjs';
import { witnessAddresses } from './blocks.mjs';
import { ACCOUNT_CREATION_FEE, LARGEST_FEE_LIMIT, MEMO_FEE, NEW_ACCOUNT_FEE, Refusal, outcomeOf } from './chain.mjs';
import { base58, bytesOf, evmAddress, hexOf, hexOfText, jsonText, readAddress, sha256 } from './bytes.mjs';
import { buildTransaction, readBytes, readJson, withoutEmpty } from './transactions.mjs';

const TOTAL_BANDWIDTH = 43_200_000_000;
const TOTAL_ENERGY = 180_000_000_000;
const STAKED_TRX = 20_000_000_000;
const ADDRESS_FIELDS = new Set([
  'owner_address',
  'contract_address',
  'to_address',
  'witness_address',
  'origin_address',
  'address',
]);
const TEXT_FIELDS = new Set(['message', 'resMessage']);

/** The request is malformed; `kind` is the class of the error in java-tron. */
class BadRequest extends Error {
  constructor(message, kind = 'java.lang.IllegalArgumentException') {
    super(message);
    this.kind = kind;
  }
}

/** The body of an error, which java-tron sends with status 200. */
export const errorBody = (error) => ({ Error: `class ${error.kind ?? 'java.lang.Exception'} : ${error.message}` });

const isTrue = (value) => value === true || String(value).toLowerCase() === 'true';

/** A value for `visible` responses: addresses in Base58 and messages as text. */
function visibleForm(value, key) {
  if (Array.isArray(value)) return value.map((item) => visibleForm(item, key));
  if (value && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, visibleForm(item, name)]));
  }
  if (typeof value !== 'string') return value;
  if (TEXT_FIELDS.has(key)) return bytesOf(value).toString('utf8');
  if (!ADDRESS_FIELDS.has(key)) return value;
  if (key === 'address' && value.length === 40) return base58(`41${value}`);
  return value.length === 42 ? base58(value) : value;
}

const shown = (value, { visible }) => (isTrue(visible) ? visibleForm(value) : value);

function address(params, field) {
  const text = params[field];
  if (typeof text !== 'string' || text === '') throw new BadRequest(`${field} isn't set.`);
  const found = readAddress(text);
  if (!found || isTrue(params.visible) !== !/^(0x)?41[0-9a-fA-F]{40}$/.test(text)) {
    throw new BadRequest(`INVALID ${isTrue(params.visible) ? 'base58' : 'hex'} String`, 'org.tron.json.ParseException');
  }
  return found;
}

function number(params, field) {
  const value = Number(params[field] ?? 0);
  if (Number.isSafeInteger(value)) return value;
  throw new BadRequest(`For input string: "${params[field]}"`, 'java.lang.NumberFormatException');
}

const transactionJson = ({ id, json, raw, signatures, contractRet }) => ({
  ...(contractRet && { ret: [{ contractRet }] }),
  ...(signatures.length > 0 && { signature: signatures }),
  txID: id,
  raw_data: json,
  raw_data_hex: hexOf(raw),
});

function blockJson(block, withTransactions = true) {
  if (!block) return {};
  const transactions = block.published ?? block.transactions.map(transactionJson);
  return {
    blockID: block.id,
    block_header: { raw_data: block.header, ...(block.signature && { witness_signature: block.signature }) },
    ...(withTransactions && transactions.length > 0 && { transactions }),
  };
}

/** A block of the node; `{}` if the node hides blocks. */
function shownBlockJson({ view, params }, block, withTransactions) {
  return shown(view.lies.unknownBlocks && block?.number !== 0 ? {} : blockJson(block, withTransactions), params);
}

function getBlock({ view, params, limit }) {
  const wanted = String(params.id_or_num ?? '');
  const detail = isTrue(params.detail);
  if (wanted === '') return shownBlockJson({ view, params }, view.block(limit), detail);
  if (/^-?\d{1,18}$/.test(wanted)) {
    if (wanted.startsWith('-')) return { Error: 'num must be non-positive number.' };
    return shownBlockJson({ view, params }, view.block(Number(wanted), limit), detail);
  }
  if (!/^[0-9a-fA-F]{64}$/.test(wanted)) return { Error: 'id must be legal block hash.' };
  return shownBlockJson({ view, params }, view.blockById(wanted.toLowerCase(), limit), detail);
}

function getBlocks({ view, params, limit }, from, end) {
  const block = [];
  for (let at = from; at < end; at++) {
    const json = shownBlockJson({ view, params }, view.block(at, limit));
    if (json.blockID) block.push(json);
  }
  return { block };
}

const transactionId = ({ value }) => String(value ?? '').toLowerCase();

function accountJson(address, account) {
  const keys = [{ address, weight: 1 }];
  const operations = '7fff1fc0033ec30f000000000000000000000000000000000000000000000000';
  return {
    ...withoutEmpty({ address, type: account.isContract ? 'Contract' : undefined, balance: account.balance }),
    ...withoutEmpty({ create_time: account.createTime, latest_opration_time: account.latestOperationTime }),
    ...withoutEmpty({ net_usage: account.netUsed, free_net_usage: account.freeNetUsed }),
    account_resource: { ...withoutEmpty({ energy_usage: account.energyUsed }), energy_window_size: 28800 },
    net_window_size: 28800,
    owner_permission: { permission_name: 'owner', threshold: 1, keys },
    active_permission: [{ type: 'Active', id: 2, permission_name: 'active', threshold: 1, operations, keys }],
    frozenV2: [
      withoutEmpty({ amount: account.frozenForBandwidth }),
      { type: 'ENERGY', ...withoutEmpty({ amount: account.frozenForEnergy }) },
      { type: 'TRON_POWER' },
    ],
  };
}

const resourceJson = (account) =>
  withoutEmpty({
    freeNetUsed: account.freeNetUsed,
    freeNetLimit: FREE_BANDWIDTH,
    NetUsed: account.netUsed,
    NetLimit: account.netLimit,
    TotalNetLimit: TOTAL_BANDWIDTH,
    TotalNetWeight: STAKED_TRX,
    EnergyUsed: account.energyUsed,
    EnergyLimit: account.energyLimit,
    TotalEnergyLimit: TOTAL_ENERGY,
    TotalEnergyWeight: STAKED_TRX,
  });

/** The network's parameters, as far as the stand-in has them. A value of zero is left out. */
const chainParameters = ({ energyPrice, bandwidthPrice }) =>
  Object.entries({
    getMaintenanceTimeInterval: 21_600_000,
    getCreateAccountFee: ACCOUNT_CREATION_FEE,
    getTransactionFee: bandwidthPrice,
    getCreateNewAccountFeeInSystemContract: NEW_ACCOUNT_FEE,
    getCreateNewAccountBandwidthRate: 1,
    getEnergyFee: energyPrice,
    getMaxCpuTimeOfOneTx: 80,
    getTotalEnergyLimit: TOTAL_ENERGY,
    getTotalEnergyCurrentLimit: TOTAL_ENERGY,
    getUpdateAccountPermissionFee: 100_000_000,
    getMultiSignFee: 1_000_000,
    getForbidTransferToContract: 1,
    getMaxFeeLimit: LARGEST_FEE_LIMIT,
    getFreeNetLimit: FREE_BANDWIDTH,
    getTotalNetLimit: TOTAL_BANDWIDTH,
    getMemoFee: MEMO_FEE,
    getUnfreezeDelayDays: 14,
    getAllowOptimizedReturnValueOfChainId: 1,
    getAllowDynamicEnergy: 0,
  }).map(([key, value]) => ({ key, ...withoutEmpty({ value }) }));

const capitalized = (text) => text[0].toUpperCase() + text.slice(1);

const parameterJson = ({ name, type, indexed }) => ({ ...(indexed && { indexed }), ...withoutEmpty({ name }), type });

function contractJson(address) {
  const contract = contracts.get(address);
  if (!contract) return null;
  const entrys = contract.abi.map(({ type, stateMutability, inputs, outputs, name }) => ({
    type: capitalized(type),
    ...withoutEmpty({ name }),
    ...(stateMutability && { stateMutability: capitalized(stateMutability) }),
    ...(inputs?.length && { inputs: inputs.map(parameterJson) }),
    ...(outputs?.length && { outputs: outputs.map(parameterJson) }),
  }));
  return {
    bytecode: contract.creation,
    consume_user_resource_percent: 100,
    name: contract.name,
    abi: { entrys },
    origin_energy_limit: 10_000_000,
    contract_address: address,
    code_hash: utils.ethersUtils.keccak256(`0x${contract.code}`).slice(2),
    trx_hash: hexOf(sha256(bytesOf(contract.creation))),
  };
}

/** The call in a request: a function with its parameters, or calldata. */
function callOf(params) {
  const owner = address(params, 'owner_address');
  const contract = address(params, 'contract_address');
  const selector = params.function_selector;
  const data = selector
    ? utils.ethersUtils.id(selector).slice(2, 10) + (params.parameter ?? '')
    : (params.data ?? '').replace(/^0x/, '');
  const callValue = number(params, 'call_value');
  return withoutEmpty({ owner_address: owner, contract_address: contract, call_value: callValue, data });
}

function refusedCall(error) {
  const code = error.code ?? 'OTHER_ERROR';
  const message = error.code ? error.message : errorBody(error).Error;
  return { result: { code, message: hexOfText(message) } };
}

async function execute({ view, anvil, solid }, value) {
  if (!contracts.has(value.contract_address)) {
    throw new Refusal('CONTRACT_VALIDATE_ERROR', 'Smart contract is not exist.');
  }
  const call = {
    from: evmAddress(value.owner_address),
    to: evmAddress(value.contract_address),
    data: `0x${value.data ?? ''}`,
    value: value.call_value ?? 0,
  };
  const trace = await anvil.trace(call, view.evmBlock(solid));
  return { ...outcomeOf(trace), logs: trace.logs };
}

async function triggerConstantContract(context) {
  const { view, params } = context;
  try {
    const value = callOf(params);
    const { result, energy, output, message, logs } = await execute(context, value);
    const transaction = buildTransaction('TriggerSmartContract', value, view.block(view.headNumber));
    const ret = [message ? { ret: 'FAILED' } : {}];
    return shown(
      {
        result: { result: true, ...(message && { message: hexOfText(message) }) },
        energy_used: energy,
        constant_result: [result === 'SUCCESS' || result === 'REVERT' ? output : ''],
        ...(logs.length > 0 && { logs }),
        transaction: { ret, visible: isTrue(params.visible), ...transactionJson(transaction) },
      },
      params,
    );
  } catch (error) {
    return shown(refusedCall(error), params);
  }
}

async function estimateEnergy(context) {
  try {
    const { energy, message } = await execute(context, callOf(context.params));
    if (message) return shown({ result: { code: 'CONTRACT_EXE_ERROR', message: hexOfText(message) } }, context.params);
    return { result: { result: true }, energy_required: energy };
  } catch (error) {
    return shown(refusedCall(error), context.params);
  }
}

function triggerSmartContract({ view, params }) {
  try {
    const value = callOf(params);
    if (!contracts.has(value.contract_address)) {
      throw new Refusal('CONTRACT_VALIDATE_ERROR', 'No contract or not a smart contract');
    }
    const feeLimit = number(params, 'fee_limit');
    const transaction = buildTransaction('TriggerSmartContract', value, view.block(view.headNumber), { feeLimit });
    const json = { visible: isTrue(params.visible), ...transactionJson(transaction) };
    return shown({ result: { result: true }, transaction: json }, params);
  } catch (error) {
    return shown(refusedCall(error), params);
  }
}

function createTransaction({ view, params }) {
  const value = {
    owner_address: address(params, 'owner_address'),
    to_address: address(params, 'to_address'),
    amount: number(params, 'amount'),
  };
  const transaction = buildTransaction('TransferContract', value, view.block(view.headNumber));
  return shown({ visible: isTrue(params.visible), ...transactionJson(transaction) }, params);
}

/** Sends a transaction to the chain; `null`, or the refusal. */
async function sent({ view }, transaction) {
  const { broadcastCode, lostBroadcast } = view.lies;
  if (broadcastCode) return new Refusal(broadcastCode.code, broadcastCode.message);
  if (lostBroadcast) return null;
  try {
    await view.chain.broadcast(transaction);
    return null;
  } catch (error) {
    return error.code && typeof error.code === 'string' ? error : new Refusal('OTHER_ERROR', `Error: ${error.message}`);
  }
}

async function broadcastTransaction(context) {
  const transaction = readJson(context.params);
  const refusal = await sent(context, transaction);
  if (!refusal) return { result: true, txid: transaction.id };
  return shown({ code: refusal.code, message: hexOfText(refusal.message), txid: transaction.id }, context.params);
}

async function broadcastHex(context) {
  const transaction = readBytes(String(context.params.transaction ?? ''));
  const refusal = await sent(context, transaction);
  return {
    result: refusal === null,
    code: refusal?.code ?? 'SUCCESS',
    message: refusal?.message ?? '',
    transaction: jsonText(visibleForm(transactionJson({ ...transaction, contractRet: null }))),
    txid: transaction.id,
  };
}

const forAccount = (json) => ({ view, params }) => {
  const wanted = address(params, 'address');
  const account = view.chain.accounts.get(wanted);
  return account ? shown(json(account, wanted), params) : {};
};

const contractOf = (params) => contractJson(address(params, 'value'));

/** Calls that the full node and the solid node have. */
const BOTH = {
  getnowblock: ({ view, params, limit }) => shownBlockJson({ view, params }, view.block(limit)),
  getblockbynum: ({ view, params, limit }) =>
    shownBlockJson({ view, params }, view.block(number(params, 'num'), limit)),
  getblockbyid: ({ view, params, limit }) =>
    shownBlockJson({ view, params }, view.blockById(transactionId(params), limit)),
  getblockbylimitnext: (context) => {
    const [from, end] = [number(context.params, 'startNum'), number(context.params, 'endNum')];
    return getBlocks(context, from, Math.min(end, context.limit + 1));
  },
  getblockbylatestnum: (context) =>
    getBlocks(context, Math.max(context.limit + 1 - number(context.params, 'num'), 0), context.limit + 1),
  getblock: getBlock,
  gettransactionbyid: ({ view, params, limit }) => {
    const found = view.find(transactionId(params), limit);
    return found ? shown(transactionJson(found.transaction), params) : {};
  },
  gettransactioninfobyid: ({ view, params, limit }) => {
    const found = view.find(transactionId(params), limit);
    return found ? shown(found.info, params) : {};
  },
  gettransactioninfobyblocknum: ({ view, params, limit }) => {
    const wanted = number(params, 'num');
    return wanted > 0 ? shown(view.infos(wanted, limit), params) : {};
  },
  gettransactioncountbyblocknum: ({ view, params, limit }) => ({
    count: view.block(number(params, 'num'), limit)?.transactions.length ?? -1,
  }),
  getaccount: forAccount((account, wanted) => accountJson(wanted, account)),
  triggerconstantcontract: triggerConstantContract,
  estimateenergy: estimateEnergy,
  getenergyprices: ({ view }) => ({ prices: `0:${view.chain.energyPrice}` }),
  getbandwidthprices: ({ view }) => ({ prices: `0:${view.chain.bandwidthPrice}` }),
  listwitnesses: ({ params }) => {
    const witnesses = witnessAddresses().map((address) => ({ address, voteCount: 1_000_000, isJobs: true }));
    return shown({ witnesses }, params);
  },
};

/** Calls that only the full node has. */
const FULL = {
  getaccountresource: forAccount(resourceJson),
  getchainparameters: ({ view }) => ({ chainParameter: chainParameters(view.chain) }),
  getcontract: ({ params }) => {
    const contract = contractOf(params);
    return contract ? shown(contract, params) : {};
  },
  getcontractinfo: ({ params }) => {
    const contract = contractOf(params);
    if (!contract) return {};
    const { code } = contracts.get(contract.contract_address);
    return shown({ smart_contract: contract, runtimecode: code, contract_state: {} }, params);
  },
  getnodeinfo: ({ view }) => {
    const [head, solid] = [view.block(view.headNumber), view.block(view.solidNumber)];
    return {
      block: `Num:${head.number},ID:${head.id}`,
      solidityBlock: `Num:${solid.number},ID:${solid.id}`,
      configNodeInfo: { codeVersion: '4.8.0', supportConstant: true },
    };
  },
  gettransactionfrompending: ({ view, params }) => {
    const found = view.chain.pending.find(({ id }) => id === transactionId(params));
    return found ? shown(transactionJson(found), params) : {};
  },
  getpendingsize: ({ view }) => ({ pendingSize: view.chain.pending.length }),
  triggersmartcontract: triggerSmartContract,
  createtransaction: createTransaction,
  broadcasttransaction: broadcastTransaction,
  broadcasthex: broadcastHex,
};

/** The function of a path such as `/wallet/getnowblock`, and whether it shows solid blocks; `null` for other paths. */
export function walletCall(path) {
  const [, api, name] = path.match(/^\/(wallet|walletsolidity)\/([a-z0-9]+)$/i) ?? [];
  const calls = api === 'wallet' ? { ...BOTH, ...FULL } : BOTH;
  return api && Object.hasOwn(calls, name) ? { call: calls[name], solid: api === 'walletsolidity' } : null;
}
