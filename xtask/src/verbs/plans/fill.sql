-- Rows for every table of a migrated database. The name and type of a column determine its values, so that a new table
-- or column is filled without a change here. A caller that needs other values for a column lists them in fill.chosen;
-- the bench of searches does (benches/numbers/payments/fill.sql).
--
-- In the tables that grow with each payment, half of the rows belong to one platform; in the others, no platform has
-- more than twenty. A tenth of the rows names one wallet, and every word is the one that most rows share: a statement
-- that looks for another word looks for a value that does not occur.

SET client_min_messages = warning;
CREATE SCHEMA fill;

-- Rows are a minute apart; the last one is now.
CREATE TABLE fill.size AS SELECT :large::bigint AS large, :medium::bigint AS medium, now() - :large * interval '1 minute' AS begun;
DO $$ BEGIN EXECUTE format($f$
  CREATE FUNCTION fill.at(i bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS
    $q$ SELECT %L::timestamptz + i * interval '1 minute' $q$
$f$, (SELECT begun FROM fill.size)); END $$;

-- The ULID of row i of a table.
CREATE FUNCTION fill.digit(ms bigint, shift int) RETURNS text LANGUAGE sql IMMUTABLE AS
  $$ SELECT substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', 1 + ((ms >> shift) & 31)::int, 1) $$;
CREATE FUNCTION fill.ulid(ms bigint, place text, i bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT fill.digit(ms, 45) || fill.digit(ms, 40) || fill.digit(ms, 35) || fill.digit(ms, 30) || fill.digit(ms, 25)
    || fill.digit(ms, 20) || fill.digit(ms, 15) || fill.digit(ms, 10) || fill.digit(ms, 5) || fill.digit(ms, 0)
    || place || lpad(i::text, 10, '0')
$$;
CREATE FUNCTION fill.place(name text) RETURNS text LANGUAGE sql IMMUTABLE AS
  $$ SELECT translate(upper(substr(md5(name), 1, 6)), 'ABCDEF', 'GHJKMN') $$;
DO $$ BEGIN EXECUTE format($f$
  CREATE FUNCTION fill.id(place text, i bigint) RETURNS text LANGUAGE sql IMMUTABLE AS
    $q$ SELECT fill.ulid(%s + i * 60000, place, i) $q$
$f$, (SELECT (extract(epoch FROM begun) * 1000)::bigint FROM fill.size)); END $$;

-- Number of rows for each table.
CREATE FUNCTION fill.rows(name text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN name IN ('payments', 'payment_parties', 'requests', 'events', 'deliveries', 'delivery_attempts') THEN large
    -- One row for each network, instance, relayer, group or key of the service.
    WHEN name ~ '^(chain_(cursors|leaders|backlogs)|relay_bids|relay_transactions|key_material)$' THEN 10
    ELSE medium END FROM fill.size
$$;

CREATE VIEW fill.tables AS SELECT relname AS name, fill.rows(relname) AS rows FROM pg_class
  WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'seaql_migrations';

-- Expressions for columns with chosen values.
CREATE TABLE fill.chosen (of_table text, of_column text, expression text NOT NULL, PRIMARY KEY (of_table, of_column));

-- The expression for a column of row i, of n rows.
CREATE FUNCTION fill.expression(tab text, col text, type text, nullable boolean, in_key boolean) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  seed text := format('md5(%L || i)', col);
  refers text := CASE col
    WHEN 'request_row' THEN 'requests' WHEN 'event_id' THEN 'events' WHEN 'delivery_id' THEN 'deliveries'
    WHEN 'payment_id' THEN 'payments' WHEN 'endpoint_id' THEN 'webhook_endpoints' WHEN 'account_id' THEN 'accounts'
    WHEN 'schedule_id' THEN 'schedules' WHEN 'client_row' THEN 'client_ids' END;
  hexes text := CASE
    WHEN col ~ '(tx_hash|block_hash|_topic|^hash|_hash)$' THEN format('%s || md5(i || %L)', seed, col)
    WHEN col = 'reference' THEN format('substr(%s, 1, 16)', seed)
    -- One wallet has a tenth of all rows.
    WHEN col ~ '^(wallet|payee|payer|payer_eoa|address)$' AND NOT (in_key AND tab <> 'payment_parties')
      THEN format('rpad(md5((CASE WHEN i %% 10 = 0 THEN 0 ELSE i / 7 END)::text || %L), 40, ''0'')',
        CASE WHEN col LIKE 'payer%' THEN 'payer' ELSE '' END)
    WHEN col ~ '(address|token|proxy|wallet|payee|payer|relayer|contract)$' THEN format('rpad(%s, 40, ''0'')', seed) END;
BEGIN
  RETURN CASE
    WHEN nullable AND col ~ '(reversed_at|reversal_reason|revoked_at|lease_until|lease_token|recover_at|recover_from|used_at|settled_at|next_period_at|period|parent_row|schedule_id|failing_since|failed_at|halted_reason|wake_at|holder|original_.*|flaw)$'
      THEN 'NULL'
    WHEN nullable AND type NOT IN ('text', 'bytea') THEN 'NULL'
    -- Links hide the newer half of the rows that were created with that client ID.
    WHEN col = 'is_hidden' THEN format('i %% 10 = 4 AND i > %s', fill.rows(tab) / 2)
    WHEN type = 'boolean' THEN CASE WHEN col ~ '^is_(active|approved|told|told_paid)$' THEN 'true' ELSE 'false' END
    WHEN type = 'bytea' THEN format('decode(%s, ''hex'')', coalesce(hexes, seed))
    WHEN col = 'id' THEN format('fill.id(%L, i)', fill.place(tab))
    WHEN col ~ '^(platform|owner)_id$' AND fill.rows(tab) < (SELECT large FROM fill.size)
      THEN format('fill.id(''PLATFM'', i / %s)', CASE WHEN tab IN ('wallets', 'accounts') THEN 1 ELSE 20 END)
    WHEN col ~ '^(platform|owner)_id$'
      THEN 'CASE WHEN i % 2 = 0 THEN fill.id(''PLATFM'', 0) ELSE fill.id(''PLATFM'', i % 397) END'
    -- A tenth of the rows was created with one client ID, which belongs to the platform that has half of them.
    WHEN col = 'client_row' AND nullable THEN format('CASE WHEN i %% 10 = 4 THEN fill.id(%L, 2) END', fill.place(refers))
    WHEN refers IS NOT NULL AND fill.rows(refers) = (SELECT large FROM fill.size) THEN format('fill.id(%L, i)', fill.place(refers))
    WHEN refers IS NOT NULL AND in_key THEN format('fill.id(%L, i)', fill.place(refers))
    WHEN refers IS NOT NULL THEN format('fill.id(%L, CASE WHEN i %% 2 = 0 THEN 2 ELSE i %% %s END)', fill.place(refers), fill.rows(refers))
    WHEN hexes IS NOT NULL AND col ~ '(hash|topic|reference)$' THEN hexes
    WHEN hexes IS NOT NULL THEN format('''0x'' || %s', hexes)
    WHEN col = 'request_id' THEN '''01'' || ' || seed
    WHEN col = 'network' THEN CASE WHEN in_key AND fill.rows(tab) < 100 THEN '(ARRAY[''sepolia'',''base'',''mainnet'',''optimism'',''matic'',''bsc'',''arbitrum-one'',''tron'',''xdai'',''fantom''])[i::int]' ELSE '''sepolia''' END
    WHEN col IN ('state', 'status') AND type = 'text' THEN CASE tab
      -- A backlog is waiting, and some deliveries have failed.
      WHEN 'deliveries' THEN 'CASE WHEN i % 10 = 0 THEN ''queued'' WHEN i % 50 = 1 THEN ''failed'' ELSE ''delivered'' END'
      WHEN 'requests' THEN 'CASE WHEN i % 100 = 0 THEN ''pending'' ELSE ''paid'' END'
      WHEN 'schedules' THEN '''active''' WHEN 'rates' THEN '''accepted''' ELSE '''settled''' END
    WHEN col = 'kind' THEN CASE tab WHEN 'events' THEN '''payment.confirmed''' ELSE '''direct''' END
    WHEN col LIKE '%currency' THEN '''USDC-sepolia'''
    WHEN col IN ('symbol', 'invoice') THEN '''USD'''
    WHEN col ~ '(amount|units|credited|expected|tolerated|fee|tip)$' AND type = 'text' THEN '''1000'''
    WHEN col = 'body' THEN '''{"event":"payment.confirmed"}'''
    WHEN type = 'text' THEN format('%L || i', col)
    WHEN type LIKE 'timestamp%' THEN 'fill.at(i)'
    WHEN type IN ('bigint', 'integer', 'smallint', 'numeric') THEN CASE WHEN col ~ '(number|nonce|version)$' OR in_key THEN CASE WHEN col = 'position' THEN '0' ELSE 'i' END ELSE '0' END
    WHEN type IN ('jsonb', 'json') THEN '''[]'''
    WHEN type = 'uuid' THEN seed || '::uuid'
    ELSE 'DEFAULT_IS_NOT_KNOWN_FOR_' || type END;
END $$;

-- Fills a table. Indexes are dropped and rebuilt afterwards, which is faster than maintaining them, unless a constraint
-- uses one.
CREATE FUNCTION fill.fill(tab text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  columns text; expressions text; again text[]; dropping text;
BEGIN
  SET LOCAL session_replication_role = replica;
  SET LOCAL synchronous_commit = off;
  SET LOCAL maintenance_work_mem = '256MB';
  SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum),
    string_agg(coalesce(c.expression, fill.expression(tab, a.attname, format_type(a.atttypid, NULL), NOT a.attnotnull,
      EXISTS (SELECT FROM pg_index x WHERE x.indrelid = a.attrelid AND x.indisunique AND a.attnum = ANY (x.indkey)))), ', ' ORDER BY a.attnum)
    INTO columns, expressions
    FROM pg_attribute a LEFT JOIN fill.chosen c ON c.of_table = tab AND c.of_column = a.attname
    WHERE a.attrelid = tab::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '';
  SELECT array_agg(pg_get_indexdef(indexrelid)), coalesce('DROP INDEX ' || string_agg(indexrelid::regclass::text, ', '), 'SELECT')
    INTO again, dropping FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
    WHERE indrelid = tab::regclass AND relkind = 'r' AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid);
  EXECUTE dropping;
  EXECUTE format('INSERT INTO %I (%s) SELECT %s FROM generate_series(1, %s) AS i', tab, columns, expressions, fill.rows(tab));
  FOR n IN 1 .. coalesce(array_length(again, 1), 0) LOOP
    EXECUTE again[n];
  END LOOP;
END $$;
