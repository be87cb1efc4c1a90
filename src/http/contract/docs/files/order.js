// The display order of the groups, the same as in the overview.

const order = document.getElementById('ui').dataset.order.split('|');

const place = (name) => {
  const at = order.indexOf(name.toLowerCase());
  return at < 0 ? order.length : at;
};

/** Compares the names of two groups. */
export const compare = (one, other) => place(one) - place(other);
