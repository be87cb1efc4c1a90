-- Rows that follow from payments: those of their wallets, the counts, and the samples that the bench searches for.

SET timezone = 'UTC';
SET synchronous_commit = off;
SET work_mem = '256MB';

-- Each payment is in the groups of its platform and of its client ID, and in both for each of its wallets.
CREATE TABLE fill.parties AS
  SELECT platform_id, wallet, is_payee, of_client, key AS group_key, paid_at, id
  FROM payments, LATERAL (VALUES (payee, true), (payer, false)) AS parties(wallet, is_payee),
    LATERAL (VALUES ('', group_key), (client_row, client_group_key)) AS groups(of_client, key)
  WHERE key IS NOT NULL;
INSERT INTO payment_parties (platform_id, wallet, group_key, is_payee, paid_at, payment_id)
  SELECT platform_id, wallet, group_key, is_payee, paid_at, id FROM fill.parties ORDER BY wallet, group_key, is_payee, paid_at;
INSERT INTO payment_wallets (platform_id, wallet, client_row, group_key, is_payee, payments)
  SELECT platform_id, wallet, of_client, group_key, is_payee, count(*) FROM fill.parties GROUP BY 1, 2, 3, 4, 5;
INSERT INTO payment_groups (platform_id, client_row, kind, invoice_currency, payment_currency, group_key, payments)
  SELECT platform_id, '', kind, invoice_currency, payment_currency, group_key, count(*) FROM payments GROUP BY 1, 3, 4, 5, 6
  UNION ALL
  SELECT platform_id, client_row, kind, invoice_currency, payment_currency, client_group_key, count(*) FROM payments
    WHERE client_row IS NOT NULL GROUP BY 1, 2, 3, 4, 5, 6;

-- A thousand payments over the whole table, none of the large wallet, and a month that begins at each.
CREATE TABLE fill.samples AS
  SELECT n::int AS n, tx_hash::text, reference::text, request_id, merchant_reference, payee::text AS wallet,
    group_key::text AS wallet_group,
    (SELECT wallet::text FROM payment_wallets GROUP BY wallet ORDER BY sum(payments) DESC LIMIT 1) AS hot,
    date_trunc('day', paid_at)::text AS since, (date_trunc('day', paid_at) + interval '30 days')::text AS until
  FROM generate_series(1, 1000) AS n,
    LATERAL (SELECT * FROM payments WHERE id = fill.id(fill.place('payments'), 7 + 10 * (n * (:large / 10 - 1) / 1000))) AS payments;
ALTER TABLE fill.samples ADD PRIMARY KEY (n);
VACUUM ANALYZE payment_parties, payment_wallets, payment_groups, fill.samples;
