// Checks the stand-in with unmodified tronweb. This script computes bytes, roots and ids again, with code of its own.
//
//   node check.mjs '<the line that main.mjs printed>'      (with at least two nodes)

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { request } from 'node:http';
import { TronWeb, utils } from 'tronweb';
import { checkLies } from './check-lies.mjs';

const ready = JSON.parse(process.argv[2]);
const [url, liarUrl] = ready.apiUrls;
const [payer, payee, feeTaker] = ready.accounts;
const proxy = ready.contracts.erc20FeeProxy;
const { USDT, USDC } = ready.tokens;
const PAY = 'transferFromWithReferenceAndFee(address,address,uint256,bytes,uint256,address)';
const EVENT = '0x9f16cbcc523c67a60c450e5ffe4f3b7b6dbe772e7abcadb2686ce029a9a0a2b6';
const FEE_LIMIT = 300_000_000;
const REFERENCE = '0xb3581f0b0f74cc61';
const tronWeb = new TronWeb({ fullHost: url, privateKey: payer.privateKey.slice(2) });

const sha256 = (bytes) => createHash('sha256').update(bytes).digest();
const post = async (path, body = {}, base = url) => {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(base + path, { method: 'POST', headers, body: JSON.stringify(body) });
  return { status: response.status, json: await response.json() };
};
const read = async (path, body, base) => (await post(path, body, base)).json;
const control = async (settings, base = url) => {
  const { status, json } = await post('/_control', settings, base);
  assert.equal(status, 200, JSON.stringify(json));
  return json;
};
const rpc = async (method, params, base = url) => read('/jsonrpc', { jsonrpc: '2.0', id: 1, method, params }, base);
const check = async (name, run) => {
  await run();
  console.log(`ok ${name}`);
};

/** A varint. */
function varint(value) {
  const bytes = [];
  let rest = BigInt(value);
  while (rest > 127n) {
    bytes.push(Number(rest % 128n) + 128);
    rest /= 128n;
  }
  return Buffer.from([...bytes, Number(rest)]);
}
const part = (tag, bytes) => Buffer.concat([Buffer.from([tag]), varint(bytes.length), bytes]);
const hex = (text) => Buffer.from(text, 'hex');

function recomputedId({ timestamp, txTrieRoot, parentHash, number, witness_address, version }) {
  const header = Buffer.concat([
    Buffer.from([0x08]),
    varint(timestamp),
    part(0x12, hex(txTrieRoot)),
    part(0x1a, hex(parentHash)),
    Buffer.from([0x38]),
    varint(number),
    part(0x4a, hex(witness_address)),
    Buffer.from([0x50]),
    varint(version),
  ]);
  const hash = sha256(header);
  return { id: number.toString(16).padStart(16, '0') + hash.toString('hex').slice(16), hash: hash.toString('hex') };
}

const RESULTS = { SUCCESS: '2a021801', REVERT: '2a021802', OUT_OF_ENERGY: '2a02180a' };

function recomputedRoot(transactions = []) {
  if (transactions.length === 0) return '0'.repeat(64);
  let level = transactions.map(({ raw_data_hex, signature, ret }) =>
    sha256(
      Buffer.concat([
        part(0x0a, hex(raw_data_hex)),
        ...signature.map((one) => part(0x12, hex(one))),
        hex(RESULTS[ret[0].contractRet]),
      ]),
    ),
  );
  while (level.length > 1) {
    const next = [];
    while (level.length > 1) next.push(sha256(Buffer.concat(level.splice(0, 2))));
    level = [...next, ...level];
  }
  return level[0].toString('hex');
}

/** What does not fit in a block; an empty list if the block is right. */
function faults(block) {
  const { raw_data } = block.block_header;
  const found = [];
  const { id, hash } = recomputedId(raw_data);
  if (id !== block.blockID) found.push('id');
  if (recomputedRoot(block.transactions) !== raw_data.txTrieRoot) found.push('root');
  for (const { txID, raw_data_hex } of block.transactions ?? []) {
    if (sha256(hex(raw_data_hex)).toString('hex') !== txID) found.push('txID');
  }
  const signer = utils.crypto.ecRecover(hash, block.block_header.witness_signature).toLowerCase();
  if (signer !== raw_data.witness_address) found.push('witness');
  return found;
}

const blockAt = (num, base) => read('/wallet/getblockbynum', { num }, base);
const infoOf = (value, base) => read('/wallet/gettransactioninfobyid', { value }, base);

async function signedPayment({ amount = 1_000_000, fee = 25_000, feeLimit = FEE_LIMIT, token = USDT, header } = {}) {
  const parameters = [
    { type: 'address', value: token },
    { type: 'address', value: payee.address },
    { type: 'uint256', value: amount },
    { type: 'bytes', value: REFERENCE },
    { type: 'uint256', value: fee },
    { type: 'address', value: feeTaker.address },
  ];
  const blockHeader = header ?? (await tronWeb.trx.getCurrentRefBlockParams());
  const options = { feeLimit, txLocal: true, blockHeader };
  const builder = tronWeb.transactionBuilder;
  const { transaction } = await builder.triggerSmartContract(proxy, PAY, options, parameters, payer.address);
  return tronWeb.trx.sign(transaction);
}

async function pay(options) {
  const transaction = await signedPayment(options);
  const answer = await tronWeb.trx.sendRawTransaction(transaction);
  assert.equal(answer.result, true, JSON.stringify(answer));
  return transaction;
}

const tokenAt = (address) => tronWeb.contract().at(address);
const balanceOf = async (token, holder) => BigInt(await (await tokenAt(token)).balanceOf(holder).call());
const refused = async (transaction, code) => {
  const answer = await read('/wallet/broadcasttransaction', transaction);
  assert.equal(answer.code, code, JSON.stringify(answer));
  assert.equal(answer.txid, transaction.txID);
};

await check('a wallet signs in without the node', async () => {
  const signature = await tronWeb.trx.signMessageV2('sign in');
  assert.equal(await tronWeb.trx.verifyMessageV2('sign in', signature), payer.address);
});

await check('block 0 is the published one, and the chain id is its end', async () => {
  const genesis = await read('/wallet/getblockbynum', { num: 0 });
  assert.equal(genesis.blockID, '00000000000000001ebf88508a03865c71d452e25f4d51194196a1d22b6653dc');
  assert.equal(genesis.transactions.length, 3);
  assert.equal((await rpc('eth_chainId', [])).result, '0x2b6653dc');
});

await check('the id rule of this script holds for a published header', async () => {
  const header = {
    timestamp: 1717563117000,
    txTrieRoot: '7cb6ddff8ada79c91baf6667cc8ead757b39205a8dc8ae097298dbb0587bddb7',
    parentHash: '0000000003b6b890d8e1d886520dcad1820f4313a435ad593a80c549ea883054',
    number: 62306449,
    witness_address: '4114f2c09d3de3fe82a71960da65d4935a30b24e1f',
    version: 30,
  };
  assert.equal(recomputedId(header).id, '0000000003b6b891043be54ac0ae1ef579fad5e6e1732cb0ac4237a873b8453e');
});

await check('accounts own TRX and tokens', async () => {
  assert.equal(await tronWeb.trx.getBalance(payer.address), 100_000_000_000);
  assert.equal(await balanceOf(USDT, payer.address), 1_000_000_000_000_000n);
  assert.equal(await balanceOf(USDC, payer.address), 1_000_000_000_000_000n);
  const usdt = await tokenAt(USDT);
  assert.deepEqual([await usdt.name().call(), await usdt.symbol().call()], ['Tether USD', 'USDT']);
  assert.equal((await tronWeb.trx.getAccountResources(payer.address)).freeNetLimit, 600);
  assert.deepEqual(await read('/wallet/getaccount', { address: `41${'12'.repeat(20)}` }), {});
});

await check('the contract of a token can be read and approved', async () => {
  const usdt = await tokenAt(USDT);
  const id = await usdt.approve(proxy, 500_000_000).send({ feeLimit: 100_000_000 });
  const info = await infoOf(id);
  assert.equal(info.receipt.result, 'SUCCESS');
  assert.equal(BigInt(await usdt.allowance(payer.address, proxy).call()), 500_000_000n);
  const resources = await tronWeb.trx.getAccountResources(payer.address);
  assert.equal(resources.freeNetUsed, info.receipt.net_usage);
});

let paid;
await check('a payment through the fee proxy succeeds', async () => {
  const before = await tronWeb.trx.getBalance(payer.address);
  paid = await pay();
  const info = await infoOf(paid.txID);
  assert.equal(info.receipt.result, 'SUCCESS');
  assert.equal(info.log.length, 3);
  assert.equal(info.log[2].address, TronWeb.address.toHex(proxy).slice(2).toLowerCase());
  assert.equal(info.log[2].topics[0], EVENT.slice(2));
  assert.equal(info.receipt.energy_fee, info.receipt.energy_usage_total * 100);
  assert.equal(before - (await tronWeb.trx.getBalance(payer.address)), info.fee);
  assert.equal(await balanceOf(USDT, payee.address), 1_000_000_001_000_000n);
  const estimate = await read('/wallet/estimateenergy', {
    owner_address: TronWeb.address.toHex(payer.address),
    contract_address: TronWeb.address.toHex(proxy),
    data: paid.raw_data.contract[0].parameter.value.data,
  });
  assert.ok(estimate.energy_required > 0, JSON.stringify(estimate));
});

await check('the receipt is solid only after the lag', async () => {
  assert.deepEqual(await tronWeb.trx.getTransactionInfo(paid.txID), {});
  await control({ mine: 1 });
  assert.deepEqual(await tronWeb.trx.getTransactionInfo(paid.txID), {});
  const state = await control({ mine: 1 });
  const info = await tronWeb.trx.getTransactionInfo(paid.txID);
  assert.equal(info.blockNumber, state.solidNumber);
  const solid = await read('/walletsolidity/getnowblock');
  assert.equal(solid.block_header.raw_data.number, info.blockNumber);
  const { result } = await rpc('eth_getBlockByNumber', ['finalized', false]);
  assert.deepEqual([Number(result.number), result.hash], [info.blockNumber, `0x${solid.blockID}`]);
});

await check('the JSON-RPC finds the event of the payment and calls contracts', async () => {
  const topic = utils.ethersUtils.keccak256(REFERENCE);
  const address = `0x${TronWeb.address.toHex(proxy).slice(2)}`;
  const filter = { fromBlock: '0x1', toBlock: 'latest', address, topics: [EVENT, topic] };
  const { result } = await rpc('eth_getLogs', [filter]);
  assert.equal(result.length, 1);
  const block = await blockAt(Number(result[0].blockNumber));
  assert.equal(result[0].transactionHash, `0x${paid.txID}`);
  assert.equal(result[0].blockHash, `0x${block.blockID}`);
  assert.equal(result[0].logIndex, '0x2');
  const query = { to: `0x${TronWeb.address.toHex(USDT).slice(2)}` };
  const supply = await rpc('eth_call', [{ ...query, data: '0x18160ddd' }, 'latest']);
  assert.equal(BigInt(supply.result), 10_000_000_000_000_000n);
  const mint = await rpc('eth_call', [{ ...query, data: `0x40c10f19${'0'.repeat(128)}` }, 'latest']);
  assert.equal(mint.error.message, 'REVERT opcode executed: only the owner may do this');
  assert.equal((await rpc('eth_call', [query, '0x1'])).error.code, -32602);
  const outside = await rpc('eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x1', address }]);
  assert.deepEqual(outside.result, []);
});

await check('infos of a block, visible addresses and GET have the shapes of java-tron', async () => {
  const { blockNumber } = await infoOf(paid.txID);
  const infos = await read('/wallet/gettransactioninfobyblocknum', { num: blockNumber });
  assert.deepEqual(infos, [await infoOf(paid.txID)]);
  const got = await (await fetch(`${url}/wallet/getblockbynum?num=${blockNumber}&visible=true`)).json();
  assert.equal(got.transactions[0].raw_data.contract[0].parameter.value.owner_address, payer.address);
  assert.deepEqual(await blockAt(99_999), {});
  assert.deepEqual(await read('/wallet/gettransactionbyid', { value: '00'.repeat(32) }), {});
  const parameters = (await read('/wallet/getchainparameters')).chainParameter;
  assert.deepEqual(parameters.find(({ key }) => key === 'getEnergyFee'), { key: 'getEnergyFee', value: 100 });
});

await check('refused transactions have the codes of java-tron', async () => {
  await refused(paid, 'DUP_TRANSACTION_ERROR');
  const header = await tronWeb.trx.getCurrentRefBlockParams();
  for (const lifetimeMs of [0, 25 * 3600 * 1000]) {
    const transaction = await signedPayment({ header: { ...header, expiration: header.timestamp + lifetimeMs } });
    await refused(transaction, 'TRANSACTION_EXPIRATION_ERROR');
  }
  await refused(await signedPayment({ header: { ...header, ref_block_hash: '00'.repeat(8) } }), 'TAPOS_ERROR');
  const { signature: _, ...unsigned } = await signedPayment();
  const stolen = utils.crypto.signTransaction(payee.privateKey.slice(2), unsigned);
  await refused(stolen, 'SIGERROR');
  await refused({ ...(await signedPayment()), signature: [] }, 'SIGERROR');
});

await check('a small fee limit runs out of energy, and a failing call reverts', async () => {
  const head = (await control({})).headNumber;
  const starved = await pay({ feeLimit: 1_000_000, amount: 2_000_000 });
  const starvedInfo = await infoOf(starved.txID);
  assert.deepEqual([starvedInfo.result, starvedInfo.receipt.result], ['FAILED', 'OUT_OF_ENERGY']);
  assert.equal(starvedInfo.receipt.energy_usage_total, 10_000);
  assert.equal(starvedInfo.log, undefined);
  const reverted = await pay({ amount: 9_000_000_000_000_000 });
  assert.equal((await infoOf(reverted.txID)).receipt.result, 'REVERT');
  const block = await blockAt(head + 2);
  assert.equal(block.transactions[0].ret[0].contractRet, 'REVERT');
});

await check('broadcasthex accepts the bytes of a transaction', async () => {
  const { raw_data_hex, signature } = await signedPayment({ amount: 3_000_000 });
  const bytes = Buffer.concat([part(0x0a, hex(raw_data_hex)), part(0x12, hex(signature[0].toLowerCase()))]);
  const answer = await tronWeb.trx.sendHexTransaction(bytes.toString('hex'));
  assert.equal(answer.code, 'SUCCESS', JSON.stringify(answer));
  assert.equal((await infoOf(answer.txid)).receipt.result, 'SUCCESS');
});

await check('TRX activates an account', async () => {
  const { address } = await tronWeb.createAccount();
  const answer = await tronWeb.trx.sendTransaction(address.base58, 5_000_000);
  assert.equal(answer.result, true, JSON.stringify(answer));
  assert.equal(await tronWeb.trx.getBalance(address.base58), 5_000_000);
  const info = await infoOf(answer.txid);
  assert.deepEqual([info.fee, info.receipt.net_fee], [1_100_000, 100_000]);
});

await check('waiting transactions share a block', async () => {
  await control({ hold: true });
  const amounts = [2_100_000, 2_200_000, 2_300_000, 9_000_000_000_000_000, 2_400_000];
  const sent = [];
  for (const amount of amounts) sent.push(await pay({ amount }));
  assert.deepEqual(await infoOf(sent[0].txID), {});
  await refused(sent[0], 'DUP_TRANSACTION_ERROR');
  assert.equal((await read('/wallet/gettransactionfrompending', { value: sent[4].txID })).txID, sent[4].txID);
  const { headNumber, pending } = await control({ mine: 1, hold: false });
  assert.equal(pending, 0);
  const block = await blockAt(headNumber);
  assert.deepEqual(block.transactions.map(({ txID }) => txID), sent.map(({ txID }) => txID));
  assert.deepEqual(block.transactions.map(({ ret }) => ret[0].contractRet).indexOf('REVERT'), 3);
  const { result } = await rpc('eth_getLogs', [{ fromBlock: 'latest', toBlock: 'latest', topics: [EVENT] }]);
  assert.deepEqual(result.map(({ logIndex }) => Number(logIndex)), [2, 5, 8, 11]);
});

await check('resources, activation and prices can be set', async () => {
  await control({ account: { address: payer.address, energyLimit: 1_000_000, netLimit: 10_000 }, energyPrice: 420 });
  const staked = await pay({ amount: 4_000_000 });
  const { receipt, fee } = await infoOf(staked.txID);
  assert.equal(fee, undefined);
  assert.equal(receipt.energy_usage, receipt.energy_usage_total);
  assert.deepEqual([receipt.net_fee, receipt.energy_fee], [undefined, undefined]);
  await control({ account: { address: payer.address, energyLimit: 0, netLimit: 0 } });
  const bought = await pay({ amount: 4_100_000 });
  const { receipt: priced } = await infoOf(bought.txID);
  assert.equal(priced.energy_fee, priced.energy_usage_total * 420);
  await control({ energyPrice: 100, account: { address: feeTaker.address, activated: false } });
  assert.deepEqual(await read('/wallet/getaccount', { address: TronWeb.address.toHex(feeTaker.address) }), {});
});

await check('tokens return, charge and block as set', async () => {
  const transfer = async (token) => {
    const parameters = [
      { type: 'address', value: payee.address },
      { type: 'uint256', value: 1 },
    ];
    const builder = tronWeb.transactionBuilder;
    const call = [token, 'transfer(address,uint256)', {}, parameters, payer.address];
    const answer = await builder.triggerConstantContract(...call);
    return BigInt(`0x${answer.constant_result[0]}`);
  };
  assert.deepEqual([await transfer(USDT), await transfer(USDC)], [0n, 1n]);
  await control({ token: { symbol: 'USDT', feeBasisPoints: 100 } });
  const before = await balanceOf(USDT, payee.address);
  await pay({ amount: 5_000_000, fee: 0 });
  assert.equal((await balanceOf(USDT, payee.address)) - before, 4_950_000n);
  await control({ token: { symbol: 'USDT', feeBasisPoints: 0, block: [payer.address], approvalNeedsReset: true } });
  assert.equal((await infoOf((await pay({ amount: 6_000_000 })).txID)).receipt.result, 'REVERT');
  const approval = await (await tokenAt(USDT)).approve(proxy, 7).send({ feeLimit: 100_000_000 });
  assert.equal((await infoOf(approval)).receipt.result, 'REVERT');
  const minted = { symbol: 'USDT', unblock: [payer.address], approvalNeedsReset: false };
  await control({ token: { ...minted, mint: { to: payee.address, amount: '7' } } });
});

await check('every block recomputes, links and has its time', async () => {
  const { headNumber } = await control({});
  let parent = await blockAt(0);
  for (let number = 1; number <= headNumber; number++) {
    const block = await blockAt(number);
    assert.deepEqual(faults(block), [], `block ${number}`);
    const { raw_data } = block.block_header;
    assert.equal(raw_data.parentHash, parent.blockID);
    if (number > 1) assert.ok(raw_data.timestamp - parent.block_header.raw_data.timestamp >= 3000);
    parent = block;
  }
});

await check('a reorganisation drops blocks, their payments and their state', async () => {
  const before = await balanceOf(USDT, payee.address);
  const trx = await tronWeb.trx.getBalance(payer.address);
  const dropped = await pay({ amount: 8_000_000, fee: 0 });
  const old = (await control({ mine: 1 })).headId;
  await control({ reorganise: 2 });
  assert.deepEqual(await infoOf(dropped.txID), {});
  assert.equal(await balanceOf(USDT, payee.address), before);
  assert.equal(await tronWeb.trx.getBalance(payer.address), trx);
  assert.equal((await tronWeb.trx.sendRawTransaction(dropped)).result, true);
  assert.equal(await balanceOf(USDT, payee.address), before + 8_000_000n);
  assert.notEqual((await control({ mine: 1 })).headId, old);
});

await check('time can be moved, so that a transaction expires', async () => {
  const transaction = await signedPayment({ amount: 9_000_000 });
  const { headTimeMs } = await control({});
  const state = await control({ nextTimeMs: headTimeMs + 120_000, mine: 1 });
  assert.equal(state.headTimeMs, headTimeMs + 120_000);
  await refused(transaction, 'TRANSACTION_EXPIRATION_ERROR');
});

await check('on the clock of the machine, requests make a payment solid without waiting', async () => {
  await control({ clock: 'wall' });
  const { txID } = await pay({ amount: 9_100_000 });
  for (let request = 0; request < 2; request++) await read('/wallet/getnowblock');
  const { headNumber, solidNumber } = await control({});
  assert.equal((await tronWeb.trx.getTransactionInfo(txID)).blockNumber, solidNumber);
  await read('/wallet/getnowblock');
  assert.equal((await control({ clock: 'manual' })).headNumber, headNumber);
});

await check('many payments at once put no block ahead of the clock', async () => {
  const { headTimeMs: before } = await control({ clock: 'wall' });
  for (let number = 0; number < 10; number++) await pay({ amount: 9_200_000 + number });
  const { headTimeMs } = await control({ clock: 'manual' });
  const ahead = headTimeMs - Math.max(before, Date.now());
  assert.ok(ahead < 1000, `${ahead} ms`);
});

await check('web pages cannot change the chain', async () => {
  const { port } = new URL(url);
  const send = (headers) =>
    new Promise((resolve, reject) => {
      const options = { host: '127.0.0.1', port, path: '/_control', method: 'POST', headers };
      const sent = request(options, (response) => resolve(response.resume().statusCode));
      sent.on('error', reject).end('{"mine":1}');
    });
  const { headNumber } = await control({});
  const page = { origin: 'https://shop.example', 'content-type': 'text/plain' };
  assert.equal(await send(page), 403);
  assert.equal(await send({ ...page, origin: 'null' }), 403);
  assert.equal(await send({ host: `rebound.example:${port}` }), 403);
  assert.equal((await control({})).headNumber, headNumber);
  assert.equal(await send({ host: `localhost:${port}` }), 200);
  assert.equal((await control({})).headNumber, headNumber + 1);
});

const calls = { control, read, post, rpc, pay, blockAt, infoOf };
await checkLies({ assert, check, faults, ...calls, ready, EVENT, url, liarUrl });
