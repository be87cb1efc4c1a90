// Finds the wallets of this browser: EIP-6963, and what only puts itself at `window.ethereum`.
//
// Names and icons are written by strangers: names lose what turns text around, icons are small pictures in data URLs.

const LEGACY_AFTER_MS = 300;
const ICON_MAX = 100_000;
const NAME_MAX = 40;

const isPicture = (icon) =>
  typeof icon === 'string' && icon.length <= ICON_MAX && /^data:image\/(png|jpeg|webp|gif|svg\+xml)[;,]/.test(icon);

/** Without control characters, marks of direction and invisible ones. */
const plain = (name) =>
  Array.from(String(name ?? '').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ''))
    .slice(0, NAME_MAX)
    .join('')
    .trim();

/**
 * Calls `found` with all wallets whenever another one says that it is there, as long as the page is open: extensions
 * may arrive late. A wallet is `{ id, name, icon, provider }`; `name` is empty for one that does not tell it.
 */
export function discover(found) {
  const wallets = new Map();
  const tell = () => {
    const all = [...wallets.values()];
    const announced = all.filter((wallet) => wallet.id !== 'injected');
    found(announced.length ? announced : all);
  };
  addEventListener('eip6963:announceProvider', ({ detail }) => {
    const { info, provider } = detail ?? {};
    // What cannot sign for this family of networks announces itself here too.
    const isOther = provider?.isTronLink || /tronlink/i.test(info?.rdns);
    if (!info?.rdns || typeof provider?.request !== 'function' || isOther) return;
    const id = String(info.rdns);
    if (wallets.get(id)?.provider === provider) return;
    wallets.set(id, { id, name: plain(info.name), icon: isPicture(info.icon) ? info.icon : null, provider });
    tell();
  });
  dispatchEvent(new Event('eip6963:requestProvider'));
  const look = () => {
    const provider = globalThis.ethereum;
    if (wallets.size || typeof provider?.request !== 'function' || provider.isTronLink) return;
    wallets.set('injected', { id: 'injected', name: '', icon: null, provider });
    tell();
  };
  setTimeout(look, LEGACY_AFTER_MS);
  addEventListener('ethereum#initialized', look, { once: true });
}

/** Addresses that open a page in the browser of a wallet's app: `[name, address]`. */
export function appLinks(page) {
  const bare = page.replace(/^https?:\/\//, '');
  const whole = encodeURIComponent(page);
  return [
    ['MetaMask', `https://metamask.app.link/dapp/${bare}`],
    ['Coinbase Wallet', `https://go.cb-w.com/dapp?cb_url=${whole}`],
    ['Trust Wallet', `https://link.trustwallet.com/open_url?coin_id=60&url=${whole}`],
  ];
}
