// Checks that every lie shows on the node that tells it, and on no other node.

const LAG_OF_LIAR = 2;

export async function checkLies(tools) {
  const { assert, check, control, read, post, rpc, pay, faults, blockAt, infoOf } = tools;
  const { ready, EVENT, url, liarUrl } = tools;
  const { txID } = await pay({ amount: 11_000_000 });
  const { blockNumber } = await infoOf(txID);
  await control({ mine: LAG_OF_LIAR });
  const honest = await blockAt(blockNumber);
  const filter = { fromBlock: '0x1', toBlock: 'latest', topics: [EVENT] };
  const logs = async (base) => (await rpc('eth_getLogs', [filter], base)).result;
  const payments = (await logs(url)).length;

  /** Switches lies on for one check, and ensures that the other node stays honest. */
  const lie = (lies, run) =>
    check(`lie: ${Object.keys(lies).join(', ')}`, async () => {
      await control({ lies }, liarUrl);
      await run();
      assert.deepEqual(await blockAt(blockNumber, url), honest);
      assert.equal((await infoOf(txID, url)).receipt.result, 'SUCCESS');
      await control({ lies: null }, liarUrl);
      assert.deepEqual(await blockAt(blockNumber, liarUrl), honest);
    });

  await lie({ missingLogs: true }, async () => assert.deepEqual(await logs(liarUrl), []));
  const payment = {
    token: ready.tokens.USDT,
    to: ready.accounts[1].address,
    payer: ready.accounts[4].address,
    amount: '5000000',
    reference: '0x00000000000000aa',
  };
  await lie({ forgedLogs: payment }, async () => assert.equal((await logs(liarUrl)).length, payments + 1));
  await lie({ forgedLog: true }, async () => {
    const amount = (info) => BigInt(`0x${info.log[2].data.slice(128, 192)}`);
    assert.equal(amount(await infoOf(txID, liarUrl)), 10n * amount(await infoOf(txID, url)));
    const [info] = await read('/wallet/gettransactioninfobyblocknum', { num: blockNumber }, liarUrl);
    assert.equal(amount(info), 110_000_000n);
  });
  await lie({ changedResult: true }, async () => assert.equal((await infoOf(txID, liarUrl)).receipt.result, 'REVERT'));
  await lie({ emptyInfos: true }, async () =>
    assert.deepEqual(await read('/wallet/gettransactioninfobyblocknum', { num: blockNumber }, liarUrl), []),
  );
  await lie({ otherHeader: { block: blockNumber } }, async () => {
    const block = await blockAt(blockNumber, liarUrl);
    assert.notEqual(block.blockID, honest.blockID);
    assert.deepEqual(faults(block), []);
    assert.deepEqual(faults(await blockAt(blockNumber + 1, liarUrl)), []);
  });
  await lie({ wrongId: true }, async () => assert.deepEqual(faults(await blockAt(blockNumber, liarUrl)), ['id']));
  await lie({ changedTransaction: true }, async () => {
    const block = await blockAt(blockNumber, liarUrl);
    assert.deepEqual(faults(block), ['root']);
    assert.notEqual(block.transactions[0].txID, txID);
  });
  await lie({ omittedTransaction: true }, async () => {
    const block = await blockAt(blockNumber, liarUrl);
    assert.deepEqual([faults(block), block.transactions], [['root'], undefined]);
  });
  await lie({ changedContractRet: true }, async () => {
    const block = await blockAt(blockNumber, liarUrl);
    assert.deepEqual([faults(block), block.transactions[0].ret], [['root'], [{ contractRet: 'REVERT' }]]);
    const transaction = await read('/wallet/gettransactionbyid', { value: txID }, liarUrl);
    assert.equal(transaction.ret[0].contractRet, 'REVERT');
  });
  await lie({ unknownBlocks: true }, async () => assert.deepEqual(await blockAt(blockNumber, liarUrl), {}));
  await lie({ wrongGenesis: true }, async () => {
    assert.equal((await rpc('eth_chainId', [], liarUrl)).result, '0xcd8690dc');
    assert.notEqual((await blockAt(0, liarUrl)).blockID, (await blockAt(0, url)).blockID);
  });
  await lie({ errorInOk: { times: 1 } }, async () => {
    const { status, json } = await post('/wallet/getnowblock', {}, liarUrl);
    assert.deepEqual([status, Object.keys(json)], [200, ['Error']]);
    assert.ok((await read('/wallet/getnowblock', {}, liarUrl)).blockID);
  });
  for (const status of [403, 429, 503]) {
    await lie({ quota: { status, path: '/wallet/getnowblock' } }, async () => {
      assert.equal((await post('/wallet/getnowblock', {}, liarUrl)).status, status);
      assert.equal((await post('/wallet/getblock', {}, liarUrl)).status, 200);
    });
  }
  await lie({ slow: { ms: 150 } }, async () => {
    const started = performance.now();
    await read('/wallet/getnowblock', {}, liarUrl);
    assert.ok(performance.now() - started >= 140);
  });
  await lie({ broadcastCode: true }, async () => {
    const transaction = await read('/wallet/gettransactionbyid', { value: txID });
    assert.equal((await read('/wallet/broadcasttransaction', transaction, liarUrl)).code, 'SERVER_BUSY');
  });
  await lie({ lostBroadcast: true }, async () => {
    const transaction = await read('/wallet/gettransactionbyid', { value: txID });
    assert.equal((await read('/wallet/broadcasttransaction', transaction, liarUrl)).result, true);
  });
  await lie({ forgedBlock: { ...payment, number: blockNumber } }, async () => {
    const block = await blockAt(blockNumber, liarUrl);
    // Everything recomputes; only the signature is not the witness's.
    assert.deepEqual(faults(block), ['witness']);
    const forged = await read('/walletsolidity/gettransactioninfobyid', { value: block.transactions[0].txID }, liarUrl);
    assert.equal(forged.receipt.result, 'SUCCESS');
    const last = (await logs(liarUrl)).at(-1);
    assert.deepEqual([last.blockHash, last.address], [`0x${block.blockID}`, `0x${forged.contract_address.slice(2)}`]);
    assert.equal((await blockAt(blockNumber + 1, liarUrl)).block_header.raw_data.parentHash, block.blockID);
    assert.deepEqual(await infoOf(txID, liarUrl), {});
  });
  await lie({ forgedBlock: { ...payment, witnessKeys: true } }, async () => {
    const { headNumber } = await control({}, url);
    assert.deepEqual(faults(await blockAt(headNumber + 1, liarUrl)), []);
    assert.deepEqual(await blockAt(headNumber + 1, url), {});
  });
  await check('a node can be behind and have a lag of its own', async () => {
    const before = await control({}, url);
    const state = await control({ behind: 1, solidLag: 4 }, liarUrl);
    assert.deepEqual([state.headNumber, state.solidNumber], [before.headNumber - 1, before.headNumber - 5]);
    assert.deepEqual(await blockAt(before.headNumber, liarUrl), {});
    const call = {
      owner_address: ready.accounts[0].address,
      contract_address: ready.tokens.USDT,
      function_selector: 'totalSupply()',
      visible: true,
    };
    const { result, constant_result } = await read('/wallet/triggerconstantcontract', call, liarUrl);
    assert.deepEqual([result, constant_result[0].length], [{ result: true }, 64]);
    await control({ behind: 0, solidLag: LAG_OF_LIAR }, liarUrl);
  });
}
