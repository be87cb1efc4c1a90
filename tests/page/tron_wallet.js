// A Tron wallet controlled by the test, beside the one of `wallet.js`, whose queue it uses. `sessionStorage.tron` selects
// how it appears: `announced` (TIP-6963, the default), `tron`, `tronLink`, or `none`.
(() => {
  const { wallet } = window;
  const form = sessionStorage.tron ?? 'announced';
  if (!wallet || form === 'none') return;
  const ask = ({ method, params }) => wallet.request({ method: `tron:${method}`, params });
  const listeners = [];
  const tronWeb = {
    get defaultAddress() {
      return { base58: sessionStorage.tronAccount ?? false };
    },
    get fullNode() {
      return { host: sessionStorage.tronHost ?? 'https://api.trongrid.io' };
    },
    trx: { sign: (transaction) => ask({ method: 'sign', params: [transaction] }) },
  };
  // Selects another account, as the owner of the wallet does.
  wallet.select = (account) => {
    sessionStorage.tronAccount = account;
    for (const listener of listeners) listener([account]);
    postMessage({ message: { action: 'accountsChanged', data: { address: account } } }, location.origin);
  };
  const provider = {
    request: ask,
    on: (event, listener) => event === 'accountsChanged' && listeners.push(listener),
    // A wallet has no `tronWeb` before it has shared its account.
    get tronWeb() {
      return sessionStorage.tronAccount ? tronWeb : false;
    },
  };
  if (form === 'tron') window.tron = provider;
  if (form === 'tronLink') window.tronLink = { request: ask, tronWeb };
  if (form !== 'announced') return;
  const info = { uuid: 'f3a2', name: 'Own Tron \u202eWallet', rdns: 'test.own.tron', icon: 'data:image/svg+xml,%3Csvg/%3E' };
  const announce = () => dispatchEvent(new CustomEvent('TIP6963:announceProvider', { detail: Object.freeze({ info, provider }) }));
  addEventListener('TIP6963:requestProvider', announce);
  announce();
})();
