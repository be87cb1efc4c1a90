// The EVM node that executes the contracts, and the contracts at the addresses that they have on Tron.

import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { utils } from 'tronweb';
import { evmAddress, hexOfText, quantity, readAddress } from './bytes.mjs';

const FOLDER = new URL('..', import.meta.url);
const PROXY_FACTORY =
  'node_modules/@requestnetwork/smart-contracts/dist/src/types/factories/src/contracts/ERC20FeeProxy__factory.js';

export const FEE_PROXY = readAddress('TCUDPYnS9dH3WvFEaE7wN7vnDa51J4R4fd');
export const TOKENS = {
  USDT: {
    address: readAddress('TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t'),
    name: 'Tether USD',
    transferReturn: false,
  },
  USDC: {
    address: readAddress('TEkxiTehnzSmSe2XqrBj4w32RUN966rdz8'),
    name: 'USD Coin',
    transferReturn: true,
  },
};

/** Gas limit of a call. Whether the energy suffices is decided before. */
export const CALL_GAS = 100_000_000;

/** The node's JSON-RPC. */
export class Anvil {
  #url;
  #agent = new Agent({ keepAlive: true });
  #id = 0;

  constructor(url) {
    this.#url = new URL(url);
  }

  async call(method, ...params) {
    const { error, result } = await this.#post({ jsonrpc: '2.0', id: ++this.#id, method, params });
    if (error) throw Object.assign(new Error(`${method}: ${error.message}`), { code: error.code, data: error.data });
    return result;
  }

  #post(body) {
    return new Promise((resolve, reject) => {
      const options = { method: 'POST', agent: this.#agent, headers: { 'content-type': 'application/json' } };
      const sent = request(this.#url, options, (response) => {
        const chunks = [];
        response.on('data', (chunk) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          try {
            resolve(JSON.parse(Buffer.concat(chunks).toString()));
          } catch (error) {
            reject(error);
          }
        });
      });
      sent.on('error', reject);
      sent.end(JSON.stringify(body));
    });
  }

  /** Executes a call without a transaction: its gas, result, events, and error if it fails. */
  async trace({ from, to, data, value = 0 }, block = 'latest') {
    if (value) await this.call('anvil_setBalance', from, quantity(value));
    const call = { from, to, input: data, value: quantity(value), gas: quantity(CALL_GAS), gasPrice: '0x0' };
    const options = { tracer: 'callTracer', tracerConfig: { withLog: true } };
    const frame = await this.call('debug_traceCall', call, block, options);
    return {
      gas: Number(frame.gasUsed),
      output: (frame.output ?? '0x').slice(2),
      error: frame.error ?? null,
      logs: frame.error ? [] : eventsOf(frame),
    };
  }
}

/** The events of a call and of the calls inside it, in order. */
function eventsOf(frame) {
  const events = [];
  const visit = ({ logs = [], calls = [] }) => {
    events.push(...logs);
    calls.forEach(visit);
  };
  visit(frame);
  return events.sort((a, b) => Number(a.index) - Number(b.index)).map(logOf);
}

/** An event in the form of `gettransactioninfobyid`. */
export const logOf = ({ address, topics, data }) => ({
  address: address.slice(2).toLowerCase(),
  topics: topics.map((topic) => topic.slice(2)),
  data: (data ?? '0x').slice(2),
});

const artifact = (name) => JSON.parse(readFileSync(new URL(`artifacts/${name}.json`, FOLDER), 'utf8'));

function publishedProxy() {
  const [, bytecode] = readFileSync(new URL(PROXY_FACTORY, FOLDER), 'utf8').match(/_bytecode = "(0x[0-9a-f]+)"/) ?? [];
  if (!bytecode) throw new Error(`${PROXY_FACTORY} holds no bytecode: run \`npm ci --ignore-scripts\` in devnet`);
  return bytecode;
}

const PROXY_ABI = [
  {
    type: 'function',
    name: 'transferFromWithReferenceAndFee',
    stateMutability: 'nonpayable',
    inputs: [
      { name: '_tokenAddress', type: 'address' },
      { name: '_to', type: 'address' },
      { name: '_amount', type: 'uint256' },
      { name: '_paymentReference', type: 'bytes' },
      { name: '_feeAmount', type: 'uint256' },
      { name: '_feeAddress', type: 'address' },
    ],
    outputs: [],
  },
  {
    type: 'event',
    name: 'TransferWithReferenceAndFee',
    inputs: [
      { name: 'tokenAddress', type: 'address', indexed: false },
      { name: 'to', type: 'address', indexed: false },
      { name: 'amount', type: 'uint256', indexed: false },
      { name: 'paymentReference', type: 'bytes', indexed: true },
      { name: 'feeAmount', type: 'uint256', indexed: false },
      { name: 'feeAddress', type: 'address', indexed: false },
    ],
  },
];

const word = (text) => `0x${hexOfText(text).padEnd(64, '0')}`;
const coder = utils.ethersUtils.AbiCoder.defaultAbiCoder();

/** Calldata of a function of the tokens. */
export function tokenCall(name, types, values) {
  const selector = utils.ethersUtils.id(`${name}(${types.join(',')})`).slice(0, 10);
  return selector + coder.encode(types, values).slice(2);
}

/** The contracts with code: address in hexadecimal, name and interface. */
export const contracts = new Map();

/**
 * Puts the contracts at their addresses on Tron and gives every holder tokens. The constructor of a token stores
 * nothing, so the code that the constructor returns is the whole token.
 */
export async function deploy(anvil, { tokenOwner, holders, holding }) {
  const place = async (address, name, abi, creation) => {
    const code = await anvil.call('eth_call', { input: creation }, 'latest');
    await anvil.call('anvil_setCode', evmAddress(address), code);
    contracts.set(address, { name, abi, code: code.slice(2), creation: creation.slice(2) });
  };
  await anvil.call('anvil_autoImpersonateAccount', true);
  await anvil.call('anvil_setNextBlockBaseFeePerGas', '0x0');
  await place(FEE_PROXY, 'ERC20FeeProxy', PROXY_ABI, publishedProxy());
  const { abi, bytecode } = artifact('TronUsd');
  for (const [symbol, { address, name, transferReturn }] of Object.entries(TOKENS)) {
    const values = [evmAddress(tokenOwner), word(name), word(symbol), transferReturn];
    const parameters = coder.encode(['address', 'bytes32', 'bytes32', 'bool'], values);
    await place(address, 'TronUsd', abi, bytecode + parameters.slice(2));
    for (const holder of holders) {
      const input = tokenCall('mint', ['address', 'uint256'], [evmAddress(holder), holding]);
      await sendCall(anvil, { from: evmAddress(tokenOwner), to: evmAddress(address), input });
    }
  }
  await anvil.call('anvil_mine', '0x1');
}

/** Puts a call into the next block of the EVM node. */
export const sendCall = (anvil, call) =>
  anvil.call('eth_sendTransaction', { gas: quantity(CALL_GAS), gasPrice: '0x0', ...call });
