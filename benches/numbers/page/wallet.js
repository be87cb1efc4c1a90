// A wallet without an owner: it approves at once, and sends through the node of the local chain.
(() => {
  const ask = async (method, params) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const answer = await fetch('{node}', { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const { result, error } = await answer.json();
    if (error) throw Object.assign(new Error(error.message), { code: error.code });
    return result;
  };
  const bundles = new Map();
  const own = {
    eth_requestAccounts: () => ['{payer}'],
    eth_accounts: () => [],
    wallet_getCapabilities: async () => {
      if (!sessionStorage.atomic) throw Object.assign(new Error('unknown'), { code: -32601 });
      return { [await ask('eth_chainId', [])]: { atomic: { status: 'supported' } } };
    },
    wallet_sendCalls: async ({ from, calls }) => {
      const hashes = [];
      for (const { to, data, value } of calls) hashes.push(await ask('eth_sendTransaction', [{ from, to, data, value }]));
      const id = `0x${bundles.size + 1}`;
      bundles.set(id, hashes);
      return { id };
    },
    wallet_getCallsStatus: async (id) => {
      const receipts = await Promise.all(bundles.get(id).map((hash) => ask('eth_getTransactionReceipt', [hash])));
      return { version: '2.0.0', id, status: 200, receipts };
    },
  };
  const provider = {
    on() {},
    request: async ({ method, params = [] }) => (own[method] ? own[method](...params) : ask(method, params)),
  };
  const info = { uuid: 'b1', name: 'Bench', rdns: 'test.bench', icon: '' };
  const announce = () => dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: { info, provider } }));
  addEventListener('eip6963:requestProvider', announce);
})();
