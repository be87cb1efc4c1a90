// Finds the wallets of this browser: EIP-6963, and legacy wallets at `window.ethereum`.
//
// Names and icons are untrusted: bidirectional controls are removed from names, and icons must be small data URL
// images.

const LEGACY_AFTER_MS = 300;
const ICON_MAX = 100_000;
const NAME_MAX = 40;

const isPicture = (icon) =>
  typeof icon === 'string' && icon.length <= ICON_MAX && /^data:image\/(png|jpeg|webp|gif|svg\+xml)[;,]/.test(icon);

/** The name without control, direction and invisible characters. */
const plain = (name) =>
  Array.from(String(name ?? '').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ''))
    .slice(0, NAME_MAX)
    .join('')
    .trim();

/**
 * Calls `found` with all wallets whenever a new one announces itself, as long as the page is open: extensions may load
 * late. A wallet is `{ id, name, icon, provider }`; `name` is empty if the wallet does not report one.
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
    // Wallets that cannot sign for EVM networks announce themselves here too.
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

/** Links that open a page in the browser of a wallet app: `[name, address]`. */
export function appLinks(page) {
  const bare = page.replace(/^https?:\/\//, '');
  const whole = encodeURIComponent(page);
  return [
    ['MetaMask', `https://metamask.app.link/dapp/${bare}`],
    ['Coinbase Wallet', `https://go.cb-w.com/dapp?cb_url=${whole}`],
    ['Trust Wallet', `https://link.trustwallet.com/open_url?coin_id=60&url=${whole}`],
  ];
}
