// The order of work, in which the overview has its groups too.

const order = document.getElementById('ui').dataset.order.split('|');

const place = (name) => {
  const at = order.indexOf(name.toLowerCase());
  return at < 0 ? order.length : at;
};

/** Compares the names of two groups. */
export const compare = (one, other) => place(one) - place(other);
