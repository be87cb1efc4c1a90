// A wallet controlled by the test: it announces itself and queues every request for the test to answer.
(() => {
  // Reports whether injected text ran, what the CSP blocked, and the structure of the page without its texts.
  const reports = [];
  document.addEventListener('securitypolicyviolation', (event) => reports.push(`${event.effectiveDirective} ${event.blockedURI}`));
  for (const name of ['alert', 'confirm', 'prompt', 'print']) window[name] = () => void (window.ran = 1);
  window.seen = () => {
    const all = [...document.querySelectorAll('*')];
    const [way] = document.querySelectorAll('.stack a.button:not(.second)');
    return {
      ran: window.ran ?? 0,
      reports,
      made: all.map((one) => [one.localName, ...one.getAttributeNames().sort()].join(' ')).join('\n'),
      leads: all.flatMap((one) => ['href', 'src'].map((name) => one[name]?.baseVal ?? one[name]).filter(Boolean)),
      title: document.title,
      texts: [...document.querySelectorAll('bdi')].map((one) => one.textContent),
      source: document.documentElement.outerHTML,
      way: way && [way.getAttribute('href'), way.textContent, way.nextElementSibling.textContent, new URL(way.href).origin],
    };
  };
  if (sessionStorage.noWallet) return;
  const waiting = new Map();
  const listeners = [];
  const wallet = { asks: [], listeners, waiting };
  let last = 0;
  const provider = {
    on: (event, listener) => event === 'accountsChanged' && listeners.push(listener),
    request: ({ method, params = [] }) =>
      new Promise((resolve, reject) => {
        const id = ++last;
        waiting.set(id, { resolve, reject });
        wallet.asks.push({ id, method, params });
      }),
  };
  wallet.answer = (id, result, error) => {
    const { resolve, reject } = waiting.get(id) ?? {};
    waiting.delete(id);
    if (error === 'nothing') reject?.();
    else if (error) reject?.(Object.assign(new Error(error.message), error));
    else resolve?.(result);
  };
  wallet.request = provider.request;
  window.wallet = wallet;
  const picture = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><rect width="8" height="8" rx="2" fill="#6941c6"/></svg>';
  const info = { uuid: 'f3a1', name: 'Own \u202eWallet', rdns: 'test.own', icon: `data:image/svg+xml,${encodeURIComponent(picture)}` };
  const announce = () => dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: Object.freeze({ info, provider }) }));
  addEventListener('eip6963:requestProvider', announce);
  announce();

  // Simulates a service that is unreachable or slow.
  const fetched = window.fetch;
  window.fetch = async (address, options) => {
    if (sessionStorage.isSlow) return new Promise(() => {});
    if (sessionStorage.isAway) {
      window.missed = (window.missed ?? 0) + 1;
      throw new TypeError('Failed to fetch');
    }
    return fetched(address, options);
  };
})();
