column accounts.id text not null
column accounts.platform_id text not null
column accounts.email text not null
column accounts.password_hash text not null
column accounts.created_at timestamp with time zone not null
column accounts.email_hash text
constraint accounts.accounts_pkey PRIMARY KEY (id)
CREATE UNIQUE INDEX accounts_email_hash_key ON public.accounts USING btree (email_hash)
CREATE UNIQUE INDEX accounts_email_key ON public.accounts USING btree (email)
CREATE UNIQUE INDEX accounts_pkey ON public.accounts USING btree (id)
CREATE UNIQUE INDEX accounts_platform_key ON public.accounts USING btree (platform_id)
column bank_accounts.id text not null
column bank_accounts.platform_id text not null
column bank_accounts.payer_id text not null
column bank_accounts.payment_detail_id text not null
column bank_accounts.partner_hash text
column bank_accounts.content_hash text
column bank_accounts.details text
column bank_accounts.status text not null
column bank_accounts.told text
column bank_accounts.version bigint not null
column bank_accounts.partner_version bigint not null
column bank_accounts.created_at timestamp with time zone not null
column bank_accounts.changed_at timestamp with time zone not null
column bank_accounts.ask_at timestamp with time zone
constraint bank_accounts.bank_accounts_pkey PRIMARY KEY (id)
CREATE INDEX bank_accounts_ask_idx ON public.bank_accounts USING btree (ask_at)
CREATE UNIQUE INDEX bank_accounts_content_key ON public.bank_accounts USING btree (content_hash)
CREATE UNIQUE INDEX bank_accounts_detail_key ON public.bank_accounts USING btree (payment_detail_id)
CREATE UNIQUE INDEX bank_accounts_partner_key ON public.bank_accounts USING btree (partner_hash)
CREATE INDEX bank_accounts_payer_idx ON public.bank_accounts USING btree (payer_id, id)
CREATE UNIQUE INDEX bank_accounts_pkey ON public.bank_accounts USING btree (id)
column chain_backlogs.network text not null
column chain_backlogs.next_block bigint not null
column chain_backlogs.end_block bigint not null
column chain_backlogs.reason text not null
column chain_backlogs.failures integer not null
column chain_backlogs.due_at timestamp with time zone not null
column chain_backlogs.created_at timestamp with time zone not null
constraint chain_backlogs.chain_backlogs_pkey PRIMARY KEY (network, end_block, reason)
CREATE UNIQUE INDEX chain_backlogs_pkey ON public.chain_backlogs USING btree (network, end_block, reason)
column chain_blocks.network text not null
column chain_blocks.number bigint not null
column chain_blocks.hash text not null
column chain_blocks.parent_hash text not null
column chain_blocks.time_s bigint not null
constraint chain_blocks.chain_blocks_pkey PRIMARY KEY (network, number)
CREATE UNIQUE INDEX chain_blocks_pkey ON public.chain_blocks USING btree (network, number)
column chain_cursors.network text not null
column chain_cursors.seen_number bigint not null
column chain_cursors.seen_hash text not null
column chain_cursors.final_number bigint not null
column chain_cursors.final_hash text not null
column chain_cursors.halted_reason text
column chain_cursors.updated_at timestamp with time zone not null
column chain_cursors.finality text
column chain_cursors.may_rewind boolean not null default false
constraint chain_cursors.chain_cursors_pkey PRIMARY KEY (network)
CREATE UNIQUE INDEX chain_cursors_pkey ON public.chain_cursors USING btree (network)
column chain_leaders.network text not null
column chain_leaders.term bigint not null
column chain_leaders.holder text
column chain_leaders.lease_until timestamp with time zone not null
constraint chain_leaders.chain_leaders_pkey PRIMARY KEY (network)
CREATE UNIQUE INDEX chain_leaders_pkey ON public.chain_leaders USING btree (network)
CREATE UNIQUE INDEX chain_leaders_term_key ON public.chain_leaders USING btree (network, term)
column chain_quarantine.id text not null
column chain_quarantine.network text not null
column chain_quarantine.block_number bigint not null
column chain_quarantine.tx_hash text
column chain_quarantine.position integer
column chain_quarantine.place text not null
column chain_quarantine.reason text not null
column chain_quarantine.detail text not null
column chain_quarantine.platform_id text
column chain_quarantine.request_row text
column chain_quarantine.state text not null
column chain_quarantine.attempts integer not null
column chain_quarantine.first_seen timestamp with time zone not null
column chain_quarantine.last_seen timestamp with time zone not null
column chain_quarantine.settled_at timestamp with time zone
column chain_quarantine.note text
column chain_quarantine.units text
column chain_quarantine.settlement_units text
constraint chain_quarantine.chain_quarantine_pkey PRIMARY KEY (id)
CREATE UNIQUE INDEX chain_quarantine_key ON public.chain_quarantine USING btree (network, block_number, reason, place)
CREATE UNIQUE INDEX chain_quarantine_pkey ON public.chain_quarantine USING btree (id)
CREATE INDEX chain_quarantine_request_idx ON public.chain_quarantine USING btree (platform_id, request_row)
CREATE INDEX chain_quarantine_state_idx ON public.chain_quarantine USING btree (state, settled_at)
CREATE INDEX chain_quarantine_tx_idx ON public.chain_quarantine USING btree (network, tx_hash)
column client_ids.id text not null
column client_ids.platform_id text not null
column client_ids.client_id text not null
column client_ids.label text not null
column client_ids.allowed_domains jsonb not null
column client_ids.status text not null
column client_ids.fee_percentage text
column client_ids.fee_address text
column client_ids.operator_wallet text
column client_ids.default_pre_approval_expiry_s bigint
column client_ids.default_authorization_expiry_s bigint
column client_ids.created_at timestamp with time zone not null
column client_ids.updated_at timestamp with time zone not null
column client_ids.last_used_at timestamp with time zone
column client_ids.payee_destination_id text
column client_ids.limits jsonb
column client_ids.orchestrator_id text
constraint client_ids.client_ids_pkey PRIMARY KEY (id)
CREATE UNIQUE INDEX client_ids_client_id_key ON public.client_ids USING btree (client_id)
CREATE UNIQUE INDEX client_ids_pkey ON public.client_ids USING btree (id)
CREATE INDEX client_ids_platform_idx ON public.client_ids USING btree (platform_id)
column deliveries.id text not null
column deliveries.event_id text not null
column deliveries.endpoint_id text not null
column deliveries.owner_id text not null
column deliveries.state text not null
column deliveries.retry_count integer not null
column deliveries.is_test boolean not null
column deliveries.created_at timestamp with time zone not null
column deliveries.finished_at timestamp with time zone
column deliveries.is_replay boolean not null default false
column deliveries.recovery_rounds integer not null default 0
column deliveries.recover_from timestamp with time zone
column deliveries.recover_at timestamp with time zone
column deliveries.missed text
column deliveries.success_number integer
column deliveries.success_started_at timestamp with time zone
column deliveries.success_ended_at timestamp with time zone
column deliveries.success_status integer
column deliveries.success_response text
constraint deliveries.deliveries_pkey PRIMARY KEY (owner_id, id)
CREATE INDEX deliveries_endpoint_idx ON public.deliveries USING btree (endpoint_id, id)
CREATE INDEX deliveries_event_idx ON public.deliveries USING btree (event_id, endpoint_id)
CREATE INDEX deliveries_missed_idx ON public.deliveries USING btree (owner_id, missed, id) WHERE (missed IS NOT NULL)
CREATE UNIQUE INDEX deliveries_pkey ON public.deliveries USING btree (owner_id, id)
CREATE INDEX deliveries_recovery_endpoint_idx ON public.deliveries USING btree (endpoint_id, recover_from) WHERE ((missed = 'failed'::text) AND (NOT is_test) AND (recover_at IS NOT NULL))
CREATE INDEX deliveries_recovery_idx ON public.deliveries USING btree (recover_at) WHERE ((missed = 'failed'::text) AND (NOT is_test))
storage deliveries autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=1000, fillfactor=45
partitions deliveries by RANGE (id)
column delivery_attempts.owner_id text not null
column delivery_attempts.id text not null
column delivery_attempts.delivery_id text not null
column delivery_attempts.number integer not null
column delivery_attempts.started_at timestamp with time zone not null
column delivery_attempts.ended_at timestamp with time zone not null
column delivery_attempts.status integer
column delivery_attempts.error text
column delivery_attempts.response text
constraint delivery_attempts.delivery_attempts_pkey PRIMARY KEY (owner_id, delivery_id, id)
CREATE UNIQUE INDEX delivery_attempts_pkey ON public.delivery_attempts USING btree (owner_id, delivery_id, id)
partitions delivery_attempts by RANGE (id)
column delivery_queue.id text not null
column delivery_queue.event_id text not null
column delivery_queue.endpoint_id text not null
column delivery_queue.owner_id text not null
column delivery_queue.is_test boolean not null
column delivery_queue.is_replay boolean not null
column delivery_queue.retry_count integer not null
column delivery_queue.next_at timestamp with time zone not null
column delivery_queue.lease_until timestamp with time zone
column delivery_queue.lease_token text
constraint delivery_queue.delivery_queue_pkey PRIMARY KEY (id)
CREATE INDEX delivery_queue_due_idx ON public.delivery_queue USING btree (next_at)
CREATE INDEX delivery_queue_endpoint_idx ON public.delivery_queue USING btree (owner_id, endpoint_id, next_at)
CREATE UNIQUE INDEX delivery_queue_pkey ON public.delivery_queue USING btree (id)
storage delivery_queue fillfactor=45, autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=1000, autovacuum_vacuum_cost_delay=0
column destination_nonces.nonce text not null
column destination_nonces.platform_id text not null
column destination_nonces.client_row text not null
column destination_nonces.action text not null
column destination_nonces.wallet text not null
column destination_nonces.network text not null
column destination_nonces.token text not null
column destination_nonces.expires_at timestamp with time zone not null
column destination_nonces.used_at timestamp with time zone
constraint destination_nonces.destination_nonces_pkey PRIMARY KEY (nonce)
CREATE INDEX destination_nonces_expires_idx ON public.destination_nonces USING btree (expires_at)
CREATE UNIQUE INDEX destination_nonces_pkey ON public.destination_nonces USING btree (nonce)
column event_keys.owner_id text not null
column event_keys.deduplication_key text not null
column event_keys.event_id text not null
constraint event_keys.event_keys_pkey PRIMARY KEY (owner_id, deduplication_key)
CREATE INDEX event_keys_event_idx ON public.event_keys USING btree (event_id)
CREATE UNIQUE INDEX event_keys_pkey ON public.event_keys USING btree (owner_id, deduplication_key)
column events.id text not null
column events.owner_id text not null
column events.client_row text
column events.kind text not null
column events.deduplication_key text not null
column events.request_id text
column events.body text not null
column events.created_at timestamp with time zone not null
constraint events.events_pkey PRIMARY KEY (owner_id, id)
CREATE INDEX events_kind_idx ON public.events USING btree (owner_id, kind, id)
CREATE INDEX events_of_client_idx ON public.events USING btree (owner_id, client_row, id) WHERE (client_row IS NOT NULL)
CREATE INDEX events_of_client_kind_idx ON public.events USING btree (owner_id, client_row, kind, id) WHERE (client_row IS NOT NULL)
CREATE UNIQUE INDEX events_pkey ON public.events USING btree (owner_id, id)
CREATE INDEX events_request_idx ON public.events USING btree (request_id, id)
partitions events by RANGE (id)
column fee_configs.orchestrator_id text not null
column fee_configs.id text not null
column fee_configs.scope text not null
column fee_configs.client_id text
column fee_configs.flow text not null
column fee_configs.bearer text not null
column fee_configs.basis_points integer not null
column fee_configs.cap_usd text
column fee_configs.evm_receiver text
column fee_configs.tron_receiver text
column fee_configs.status text not null
column fee_configs.created_at timestamp with time zone not null
column fee_configs.updated_at timestamp with time zone not null
constraint fee_configs.fee_configs_pkey PRIMARY KEY (orchestrator_id, id)
CREATE UNIQUE INDEX fee_configs_pkey ON public.fee_configs USING btree (orchestrator_id, id)
CREATE UNIQUE INDEX fee_configs_scope_key ON public.fee_configs USING btree (orchestrator_id, scope, flow, bearer)
column handed_out.platform_id text not null
column handed_out.request_row text not null
column handed_out.content_hash text not null
column handed_out.fee_basis_points integer
column handed_out.fee_address text
column handed_out.handed_out_at timestamp with time zone not null
column handed_out.client_row text not null default ''::text
constraint handed_out.handed_out_pkey PRIMARY KEY (platform_id, request_row, content_hash)
CREATE UNIQUE INDEX handed_out_pkey ON public.handed_out USING btree (platform_id, request_row, content_hash)
column idempotency_keys.owner_id text not null
column idempotency_keys.scope text not null
column idempotency_keys.key text not null
column idempotency_keys.body_hash text not null
column idempotency_keys.response text
column idempotency_keys.created_at timestamp with time zone not null
constraint idempotency_keys.idempotency_keys_pkey PRIMARY KEY (owner_id, scope, key)
CREATE INDEX idempotency_keys_created_idx ON public.idempotency_keys USING btree (created_at)
CREATE UNIQUE INDEX idempotency_keys_pkey ON public.idempotency_keys USING btree (owner_id, scope, key)
column invites.id text not null
column invites.code_hash text
column invites.email_hash text
column invites.wallet text
column invites.created_at timestamp with time zone not null
column invites.expires_at timestamp with time zone not null
column invites.used_at timestamp with time zone
column invites.platform_id text
constraint invites.invites_pkey PRIMARY KEY (id)
CREATE UNIQUE INDEX invites_code_key ON public.invites USING btree (code_hash)
CREATE INDEX invites_expires_idx ON public.invites USING btree (expires_at)
CREATE UNIQUE INDEX invites_pkey ON public.invites USING btree (id)
CREATE INDEX invites_wallet_idx ON public.invites USING btree (wallet)
column key_material.name text not null
column key_material.sealed text not null
column key_material.created_at timestamp with time zone not null
constraint key_material.key_material_pkey PRIMARY KEY (name)
CREATE UNIQUE INDEX key_material_pkey ON public.key_material USING btree (name)
column keys.id text not null
column keys.owner_kind text not null
column keys.owner_id text not null
column keys.hash text not null
column keys.hint text not null
column keys.label text
column keys.created_at timestamp with time zone not null
column keys.revoked_at timestamp with time zone
column keys.last_used_at timestamp with time zone
constraint keys.keys_pkey PRIMARY KEY (id)
CREATE UNIQUE INDEX keys_hash_key ON public.keys USING btree (hash)
CREATE INDEX keys_owner_idx ON public.keys USING btree (owner_id)
CREATE UNIQUE INDEX keys_pkey ON public.keys USING btree (id)
column known_devices.hash text not null
column known_devices.account_id text not null
column known_devices.last_used_at timestamp with time zone not null
constraint known_devices.known_devices_pkey PRIMARY KEY (hash)
CREATE INDEX known_devices_account_idx ON public.known_devices USING btree (account_id, last_used_at)
CREATE UNIQUE INDEX known_devices_pkey ON public.known_devices USING btree (hash)
CREATE INDEX known_devices_used_idx ON public.known_devices USING btree (last_used_at)
column observations.network text not null
column observations.tx_hash text not null
column observations.position integer not null
column observations.block_number bigint not null
column observations.block_hash text not null
column observations.log_index bigint not null
column observations.proxy text not null
column observations.reference_topic text not null
column observations.token text
column observations.payee text not null
column observations.units text not null
column observations.fee_units text not null
column observations.fee_address text
column observations.invoice_units text
column observations.invoice_fee_units text
column observations.conversion_currency text
column observations.max_rate_timespan_s text
column observations.seen_at timestamp with time zone not null
constraint observations.observations_pkey PRIMARY KEY (network, tx_hash, "position")
CREATE INDEX observations_block_idx ON public.observations USING btree (network, block_number)
CREATE UNIQUE INDEX observations_pkey ON public.observations USING btree (network, tx_hash, "position")
CREATE INDEX observations_topic_idx ON public.observations USING btree (network, reference_topic)
column off_ramp_addresses.network text not null
column off_ramp_addresses.deposit_address text not null
column off_ramp_addresses.platform_id text not null
column off_ramp_addresses.payer_id text not null
column off_ramp_addresses.account_id text not null
constraint off_ramp_addresses.off_ramp_addresses_pkey PRIMARY KEY (network, deposit_address)
CREATE UNIQUE INDEX off_ramp_addresses_pkey ON public.off_ramp_addresses USING btree (network, deposit_address)
column off_ramp_bindings.platform_id text not null
column off_ramp_bindings.request_row text not null
column off_ramp_bindings.payer_id text not null
column off_ramp_bindings.account_id text not null
column off_ramp_bindings.created_at timestamp with time zone not null
column off_ramp_bindings.closed_at timestamp with time zone
column off_ramp_bindings.closed_payments integer
column off_ramp_bindings.closed_note text
constraint off_ramp_bindings.off_ramp_bindings_pkey PRIMARY KEY (platform_id, request_row)
CREATE INDEX off_ramp_bindings_payer ON public.off_ramp_bindings USING btree (platform_id, payer_id)
CREATE UNIQUE INDEX off_ramp_bindings_pkey ON public.off_ramp_bindings USING btree (platform_id, request_row)
column off_ramp_orders.id text not null
column off_ramp_orders.platform_id text not null
column off_ramp_orders.request_row text not null
column off_ramp_orders.quote_id text not null
column off_ramp_orders.payer_id text not null
column off_ramp_orders.account_id text not null
column off_ramp_orders.partner_order text
column off_ramp_orders.state text not null
column off_ramp_orders.version bigint not null default 0
column off_ramp_orders.word text
column off_ramp_orders.failures integer not null default 0
column off_ramp_orders.next_at timestamp with time zone
column off_ramp_orders.changed_at timestamp with time zone not null
column off_ramp_orders.created_at timestamp with time zone not null
column off_ramp_orders.asked_units text
column off_ramp_orders.asked_transactions text
column off_ramp_orders.asked_payments integer
constraint off_ramp_orders.off_ramp_orders_pkey PRIMARY KEY (platform_id, request_row)
CREATE INDEX off_ramp_orders_due ON public.off_ramp_orders USING btree (next_at) WHERE (next_at IS NOT NULL)
CREATE UNIQUE INDEX off_ramp_orders_partner_key ON public.off_ramp_orders USING btree (partner_order) WHERE (partner_order IS NOT NULL)
CREATE INDEX off_ramp_orders_payer ON public.off_ramp_orders USING btree (platform_id, payer_id)
CREATE UNIQUE INDEX off_ramp_orders_pkey ON public.off_ramp_orders USING btree (platform_id, request_row)
column off_ramp_quotes.id text not null
column off_ramp_quotes.platform_id text not null
column off_ramp_quotes.request_row text not null
column off_ramp_quotes.payer_id text not null
column off_ramp_quotes.account_id text not null
column off_ramp_quotes.partner_payer text not null
column off_ramp_quotes.partner_account text not null
column off_ramp_quotes.partner_quote text not null
column off_ramp_quotes.network text not null
column off_ramp_quotes.deposit_address text not null
column off_ramp_quotes.units text not null
column off_ramp_quotes.settlement_units text not null
column off_ramp_quotes.rate text
column off_ramp_quotes.rate_provider text
column off_ramp_quotes.fee_units text not null
column off_ramp_quotes.pays_out text not null
column off_ramp_quotes.currency text not null
column off_ramp_quotes.ends_at timestamp with time zone not null
column off_ramp_quotes.created_at timestamp with time zone not null
constraint off_ramp_quotes.off_ramp_quotes_partner_key UNIQUE (platform_id, request_row, partner_quote)
constraint off_ramp_quotes.off_ramp_quotes_pkey PRIMARY KEY (id)
CREATE INDEX off_ramp_quotes_address ON public.off_ramp_quotes USING btree (network, deposit_address)
CREATE UNIQUE INDEX off_ramp_quotes_partner_key ON public.off_ramp_quotes USING btree (platform_id, request_row, partner_quote)
CREATE INDEX off_ramp_quotes_partner_quote_idx ON public.off_ramp_quotes USING btree (partner_quote)
CREATE INDEX off_ramp_quotes_payer ON public.off_ramp_quotes USING btree (platform_id, payer_id)
CREATE UNIQUE INDEX off_ramp_quotes_pkey ON public.off_ramp_quotes USING btree (id)
CREATE INDEX off_ramp_quotes_request ON public.off_ramp_quotes USING btree (platform_id, request_row)
column orchestrator_links.platform_id text not null
column orchestrator_links.client_row text not null
column orchestrator_links.orchestrator_id text not null
column orchestrator_links.status text not null
column orchestrator_links.linked_at timestamp with time zone not null
column orchestrator_links.ended_at timestamp with time zone
constraint orchestrator_links.orchestrator_links_pkey PRIMARY KEY (platform_id, client_row)
CREATE INDEX orchestrator_links_active_idx ON public.orchestrator_links USING btree (orchestrator_id, linked_at, client_row) WHERE (status = 'active'::text)
CREATE UNIQUE INDEX orchestrator_links_pkey ON public.orchestrator_links USING btree (platform_id, client_row)
column orchestrators.id text not null
column orchestrators.name text not null
column orchestrators.created_at timestamp with time zone not null
column orchestrators.disabled_at timestamp with time zone
constraint orchestrators.orchestrators_pkey PRIMARY KEY (id)
CREATE UNIQUE INDEX orchestrators_pkey ON public.orchestrators USING btree (id)
column payee_destinations.id text not null
column payee_destinations.platform_id text not null
column payee_destinations.wallet text not null
column payee_destinations.network text not null
column payee_destinations.token text not null
column payee_destinations.policy_mode text
column payee_destinations.policy_provider text
column payee_destinations.hides_until_approved boolean not null
column payee_destinations.hides_payee boolean not null
column payee_destinations.is_claimed boolean not null
column payee_destinations.is_active boolean not null
column payee_destinations.created_at timestamp with time zone not null
column payee_destinations.updated_at timestamp with time zone not null
column payee_destinations.is_set_up boolean not null default false
constraint payee_destinations.payee_destinations_pkey PRIMARY KEY (id)
CREATE UNIQUE INDEX payee_destinations_active_key ON public.payee_destinations USING btree (platform_id, wallet) WHERE is_active
CREATE UNIQUE INDEX payee_destinations_key ON public.payee_destinations USING btree (platform_id, wallet, network, token)
CREATE UNIQUE INDEX payee_destinations_pkey ON public.payee_destinations USING btree (id)
CREATE INDEX payee_destinations_wallet_idx ON public.payee_destinations USING btree (wallet)
column payer_keys.payer_id text not null
column payer_keys.platform_id text not null
column payer_keys.data_key text not null
constraint payer_keys.payer_keys_pkey PRIMARY KEY (payer_id)
CREATE UNIQUE INDEX payer_keys_pkey ON public.payer_keys USING btree (payer_id)
column payer_registrations.partner_key text not null
column payer_registrations.platform_id text not null
column payer_registrations.in_flight_until timestamp with time zone not null
column payer_registrations.erasing_at timestamp with time zone
column payer_registrations.ask_at timestamp with time zone
constraint payer_registrations.payer_registrations_pkey PRIMARY KEY (partner_key)
CREATE INDEX payer_registrations_ask_idx ON public.payer_registrations USING btree (ask_at)
CREATE UNIQUE INDEX payer_registrations_pkey ON public.payer_registrations USING btree (partner_key)
column payers.id text not null
column payers.platform_id text not null
column payers.user_id text not null
column payers.client_user_hash text
column payers.partner_hash text
column payers.details text
column payers.kyc text not null
column payers.agreement text not null
column payers.version bigint not null
column payers.partner_version bigint not null
column payers.created_at timestamp with time zone not null
column payers.changed_at timestamp with time zone not null
column payers.ask_at timestamp with time zone
column payers.erasing_at timestamp with time zone
column payers.erased_at timestamp with time zone
column payers.in_flight_until timestamp with time zone
column payers.erasure_wanted_at timestamp with time zone
constraint payers.payers_pkey PRIMARY KEY (id)
CREATE INDEX payers_ask_idx ON public.payers USING btree (ask_at)
CREATE UNIQUE INDEX payers_client_user_key ON public.payers USING btree (platform_id, client_user_hash)
CREATE UNIQUE INDEX payers_partner_key ON public.payers USING btree (partner_hash)
CREATE UNIQUE INDEX payers_pkey ON public.payers USING btree (id)
column payment_groups.platform_id text not null
column payment_groups.client_row text not null
column payment_groups.kind text not null
column payment_groups.invoice_currency text not null
column payment_groups.payment_currency text not null
column payment_groups.is_hidden boolean not null default false
column payment_groups.group_key bigint not null
column payment_groups.payments bigint not null
constraint payment_groups.payment_groups_pkey PRIMARY KEY (platform_id, client_row, kind, invoice_currency, payment_currency, is_hidden)
CREATE UNIQUE INDEX payment_groups_pkey ON public.payment_groups USING btree (platform_id, client_row, kind, invoice_currency, payment_currency, is_hidden)
column payment_parties.platform_id text not null
column payment_parties.wallet bytea not null
column payment_parties.group_key bigint not null
column payment_parties.is_payee boolean not null
column payment_parties.paid_at timestamp with time zone not null
column payment_parties.payment_id text not null
constraint payment_parties.payment_parties_pkey PRIMARY KEY (platform_id, wallet, group_key, is_payee, paid_at, payment_id)
CREATE UNIQUE INDEX payment_parties_pkey ON public.payment_parties USING btree (platform_id, wallet, group_key, is_payee, paid_at, payment_id)
column payment_wallets.platform_id text not null
column payment_wallets.wallet bytea not null
column payment_wallets.client_row text not null
column payment_wallets.group_key bigint not null
column payment_wallets.is_payee boolean not null
column payment_wallets.payments bigint not null
constraint payment_wallets.payment_wallets_pkey PRIMARY KEY (platform_id, wallet, client_row, group_key, is_payee)
CREATE UNIQUE INDEX payment_wallets_pkey ON public.payment_wallets USING btree (platform_id, wallet, client_row, group_key, is_payee)
column payments.id text not null
column payments.platform_id text not null
column payments.client_row text
column payments.request_row text not null
column payments.request_id text not null
column payments.network text not null
column payments.tx_hash bytea not null
column payments.position integer not null
column payments.block_number bigint not null
column payments.block_hash bytea not null
column payments.log_index bigint not null
column payments.proxy bytea not null
column payments.token bytea
column payments.payee bytea not null
column payments.payer bytea
column payments.payer_eoa bytea
column payments.units text not null
column payments.event_units text not null
column payments.fee_units text not null
column payments.fee_address bytea
column payments.credited text not null
column payments.fee_shortfall text
column payments.kind text not null
column payments.invoice_currency text not null
column payments.payment_currency text not null
column payments.merchant_reference text
column payments.reference bytea not null
column payments.paid_at timestamp with time zone not null
column payments.created_at timestamp with time zone not null
column payments.reversed_at timestamp with time zone
column payments.reversal_reason text
column payments.is_told boolean not null default false
column payments.schedule_id text
column payments.rate text
column payments.rate_provider text
column payments.further_fees text
column payments.is_quoted boolean not null default false
column payments.group_key bigint not null
column payments.client_group_key bigint
column payments.is_hidden boolean not null default false
column payments.payer_access text
column payments.orchestrator_fees text
column payments.source_network text not null default ''::text
column payments.source_tx_hash bytea not null default '\x'::bytea
column payments.source_payer bytea
constraint payments.payments_pkey PRIMARY KEY (platform_id, id)
constraint payments.payments_request_fkey FOREIGN KEY (platform_id, request_row) REFERENCES requests(platform_id, id)
CREATE INDEX payments_by_block ON public.payments USING btree (network, block_number)
CREATE INDEX payments_by_client_group ON public.payments USING btree (platform_id, client_group_key, paid_at, id) WHERE (client_group_key IS NOT NULL)
CREATE INDEX payments_by_client_reference ON public.payments USING btree (platform_id, merchant_reference, client_group_key, paid_at, id) WHERE ((merchant_reference IS NOT NULL) AND (client_group_key IS NOT NULL))
CREATE INDEX payments_by_group ON public.payments USING btree (platform_id, group_key, paid_at, id)
CREATE INDEX payments_by_merchant_reference ON public.payments USING btree (platform_id, merchant_reference, group_key, paid_at, id) WHERE (merchant_reference IS NOT NULL)
CREATE INDEX payments_by_reference ON public.payments USING btree (platform_id, reference)
CREATE INDEX payments_by_request ON public.payments USING btree (platform_id, request_id)
CREATE INDEX payments_by_schedule ON public.payments USING btree (platform_id, schedule_id) WHERE (schedule_id IS NOT NULL)
CREATE INDEX payments_by_unknown_access ON public.payments USING btree (paid_at) WHERE (payer_access = 'unknown'::text)
CREATE UNIQUE INDEX payments_event_key ON public.payments USING btree (tx_hash, network, "position")
CREATE UNIQUE INDEX payments_pkey ON public.payments USING btree (platform_id, id)
column platforms.id text not null
column platforms.name text not null
column platforms.created_at timestamp with time zone not null
constraint platforms.platforms_pkey PRIMARY KEY (id)
CREATE UNIQUE INDEX platforms_pkey ON public.platforms USING btree (id)
column quotes.id text not null
column quotes.platform_id text not null
column quotes.request_row text not null
column quotes.settlement_units text not null
column quotes.units text not null
column quotes.rate text not null
column quotes.rate_provider text not null
column quotes.quoted_at timestamp with time zone not null
column quotes.ends_at timestamp with time zone not null
column quotes.client_row text not null default ''::text
constraint quotes.quotes_pkey PRIMARY KEY (platform_id, id)
CREATE INDEX quotes_ends_at ON public.quotes USING btree (ends_at)
CREATE UNIQUE INDEX quotes_pkey ON public.quotes USING btree (platform_id, id)
CREATE INDEX quotes_request ON public.quotes USING btree (platform_id, request_row)
column rate_tiers.subject text not null
column rate_tiers.tier text not null
constraint rate_tiers.rate_tiers_pkey PRIMARY KEY (subject)
CREATE UNIQUE INDEX rate_tiers_pkey ON public.rate_tiers USING btree (subject)
column rates.id text not null
column rates.symbol text not null
column rates.invoice text not null
column rates.read_at timestamp with time zone not null
column rates.state text not null
column rates.provider text not null
column rates.rate text
column rates.as_of timestamp with time zone
column rates.flaw text
constraint rates.rates_pkey PRIMARY KEY (id)
CREATE INDEX rates_accepted ON public.rates USING btree (symbol, invoice, read_at) WHERE (state = 'accepted'::text)
CREATE UNIQUE INDEX rates_key ON public.rates USING btree (symbol, invoice, read_at)
CREATE UNIQUE INDEX rates_pkey ON public.rates USING btree (id)
CREATE INDEX rates_read_at ON public.rates USING btree (read_at)
column relay_bids.network text not null
column relay_bids.relayer text not null
column relay_bids.nonce bigint not null
column relay_bids.bid integer not null
column relay_bids.max_fee text not null
column relay_bids.tip text not null
column relay_bids.tx_hash text not null
column relay_bids.raw text not null
column relay_bids.signed_at timestamp with time zone not null
constraint relay_bids.relay_bids_pkey PRIMARY KEY (network, relayer, nonce, bid)
CREATE UNIQUE INDEX relay_bids_pkey ON public.relay_bids USING btree (network, relayer, nonce, bid)
column relay_transactions.network text not null
column relay_transactions.relayer text not null
column relay_transactions.nonce bigint not null
column relay_transactions.platform_id text not null
column relay_transactions.schedule_id text not null
column relay_transactions.number integer not null
column relay_transactions.to_address text not null
column relay_transactions.calldata text not null
column relay_transactions.gas_limit bigint not null
column relay_transactions.state text not null
column relay_transactions.created_at timestamp with time zone not null
constraint relay_transactions.relay_transactions_pkey PRIMARY KEY (network, relayer, nonce)
CREATE INDEX relay_transactions_payment_idx ON public.relay_transactions USING btree (schedule_id, number)
CREATE UNIQUE INDEX relay_transactions_pkey ON public.relay_transactions USING btree (network, relayer, nonce)
CREATE INDEX relay_transactions_state_idx ON public.relay_transactions USING btree (network, relayer, state, nonce)
column requests.id text not null
column requests.platform_id text not null
column requests.client_row text
column requests.client_id text
column requests.origin text
column requests.request_id text not null
column requests.salt text not null
column requests.reference text not null
column requests.reference_topic text not null
column requests.kind text not null
column requests.status text not null
column requests.network text not null
column requests.payee text not null
column requests.payer text
column requests.amount text not null
column requests.invoice_currency text not null
column requests.payment_currency text not null
column requests.token text
column requests.expected text not null
column requests.credited text not null
column requests.payment_count integer not null
column requests.tx_hash text
column requests.merchant_reference text
column requests.customer jsonb
column requests.recurrence jsonb
column requests.is_recurrence_stopped boolean not null
column requests.original_request_id text
column requests.original_request_reference text
column requests.is_crypto_to_fiat boolean not null
column requests.is_listening boolean not null
column requests.created_at timestamp with time zone not null
column requests.updated_at timestamp with time zone not null
column requests.paid_at timestamp with time zone
column requests.is_told_paid boolean not null default false
column requests.reversals integer not null default 0
column requests.schedule_id text
column requests.next_period integer not null default 0
column requests.next_period_at timestamp with time zone
column requests.parent_row text
column requests.period integer
column requests.is_quoted boolean not null default false
column requests.tolerated text not null default '0'::text
column requests.is_ordered boolean not null default false
column requests.is_hidden boolean not null default false
column requests.price jsonb
column requests.link_until timestamp with time zone
column requests.public_client text not null default ''::text
column requests.orchestrator_id text
column requests.orchestrator_fees text
constraint requests.requests_pkey PRIMARY KEY (platform_id, id)
CREATE INDEX requests_awaited_idx ON public.requests USING btree (platform_id, public_client, link_until, created_at, status) WHERE (status = ANY (ARRAY['pending'::text, 'partially_paid'::text]))
CREATE INDEX requests_created_idx ON public.requests USING btree (platform_id, created_at DESC, id DESC)
CREATE INDEX requests_merchant_reference_idx ON public.requests USING btree (platform_id, merchant_reference) WHERE (merchant_reference IS NOT NULL)
CREATE INDEX requests_next_period_idx ON public.requests USING btree (next_period_at) WHERE (next_period_at IS NOT NULL)
CREATE INDEX requests_open_idx ON public.requests USING btree (network, created_at) WHERE (status = ANY (ARRAY['pending'::text, 'partially_paid'::text]))
CREATE INDEX requests_payee_idx ON public.requests USING btree (platform_id, payee, created_at, id)
CREATE UNIQUE INDEX requests_period_key ON public.requests USING btree (platform_id, parent_row, period) WHERE (parent_row IS NOT NULL)
CREATE UNIQUE INDEX requests_pkey ON public.requests USING btree (platform_id, id)
CREATE UNIQUE INDEX requests_reference_key ON public.requests USING btree (network, reference, payee)
CREATE UNIQUE INDEX requests_request_id_key ON public.requests USING btree (request_id)
CREATE INDEX requests_shown_idx ON public.requests USING btree (platform_id, client_row, created_at, id) WHERE ((client_row IS NOT NULL) AND (NOT is_hidden))
CREATE INDEX requests_shown_payee_idx ON public.requests USING btree (platform_id, client_row, payee, created_at, id) WHERE ((client_row IS NOT NULL) AND (NOT is_hidden))
CREATE INDEX requests_topic_idx ON public.requests USING btree (network, reference_topic)
column schedule_executions.schedule_id text not null
column schedule_executions.number integer not null
column schedule_executions.platform_id text not null
column schedule_executions.request_row text not null
column schedule_executions.request_id text not null
column schedule_executions.failures integer not null
column schedule_executions.created_at timestamp with time zone not null
constraint schedule_executions.schedule_executions_pkey PRIMARY KEY (platform_id, schedule_id, number)
CREATE UNIQUE INDEX schedule_executions_pkey ON public.schedule_executions USING btree (platform_id, schedule_id, number)
column schedules.id text not null
column schedules.platform_id text not null
column schedules.client_row text
column schedules.client_id text
column schedules.origin text
column schedules.network text not null
column schedules.contract text not null
column schedules.payer text not null
column schedules.token text not null
column schedules.payee text not null
column schedules.fee_address text
column schedules.amount text not null
column schedules.fee text not null
column schedules.relayer_fee text not null
column schedules.period_s bigint not null
column schedules.first_payment_s bigint not null
column schedules.total_payments integer not null
column schedules.nonce text not null
column schedules.deadline_s bigint not null
column schedules.signature text
column schedules.status text not null
column schedules.executed integer not null
column schedules.failures integer not null
column schedules.failure_reason text
column schedules.wake_at timestamp with time zone
column schedules.last_paid_at timestamp with time zone
column schedules.version bigint not null
column schedules.created_at timestamp with time zone not null
column schedules.asked_amount text not null default ''::text
column schedules.asked_currency text not null default ''::text
constraint schedules.schedules_pkey PRIMARY KEY (platform_id, id)
CREATE INDEX schedules_live_idx ON public.schedules USING btree (platform_id, status, client_row)
CREATE INDEX schedules_next_payment_idx ON public.schedules USING btree (network, status, failures, ((first_payment_s + (executed * period_s))))
CREATE INDEX schedules_payer_idx ON public.schedules USING btree (payer, token, contract, status)
CREATE UNIQUE INDEX schedules_pkey ON public.schedules USING btree (platform_id, id)
CREATE INDEX schedules_status_idx ON public.schedules USING btree (status, created_at)
CREATE INDEX schedules_wake_idx ON public.schedules USING btree (network, wake_at)
column screening_questions.platform_id text not null
column screening_questions.secure_payment_id text not null
column screening_questions.wallet text not null
column screening_questions.asked_at timestamp with time zone not null
column screening_questions.failures integer not null
column screening_questions.is_open boolean not null
constraint screening_questions.screening_questions_pkey PRIMARY KEY (platform_id, secure_payment_id, wallet)
CREATE UNIQUE INDEX screening_questions_pkey ON public.screening_questions USING btree (platform_id, secure_payment_id, wallet)
column screenings.platform_id text not null
column screenings.secure_payment_id text not null
column screenings.wallet text not null
column screenings.wallet_kind text not null
column screenings.parent_wallet text
column screenings.status text not null
column screenings.provider text not null
column screenings.raw_status text not null
column screenings.evaluated_at timestamp with time zone not null
constraint screenings.screenings_pkey PRIMARY KEY (platform_id, secure_payment_id, wallet)
CREATE UNIQUE INDEX screenings_pkey ON public.screenings USING btree (platform_id, secure_payment_id, wallet)
column secure_payment_intents.id text not null
column secure_payment_intents.secure_payment_id text not null
column secure_payment_intents.platform_id text not null
column secure_payment_intents.hash text not null
column secure_payment_intents.payer text
column secure_payment_intents.payer_eoa text
column secure_payment_intents.created_at timestamp with time zone not null
column secure_payment_intents.network text not null default ''::text
column secure_payment_intents.token text not null default ''::text
column secure_payment_intents.kind text not null default 'transaction'::text
column secure_payment_intents.state text not null default 'reported'::text
column secure_payment_intents.amount text
column secure_payment_intents.deadline timestamp with time zone
column secure_payment_intents.searched_to bigint
column secure_payment_intents.searched_at timestamp with time zone
column secure_payment_intents.executed_by text
column secure_payment_intents.transaction_indices jsonb
constraint secure_payment_intents.secure_payment_intents_pkey PRIMARY KEY (platform_id, id)
CREATE INDEX secure_payment_intents_awaited_idx ON public.secure_payment_intents USING btree (network, searched_at) WHERE (state = 'awaiting_execution'::text)
CREATE UNIQUE INDEX secure_payment_intents_pkey ON public.secure_payment_intents USING btree (platform_id, id)
CREATE UNIQUE INDEX secure_payment_intents_place_key ON public.secure_payment_intents USING btree (platform_id, secure_payment_id, network, hash)
column secure_payment_items.secure_payment_id text not null
column secure_payment_items.position integer not null
column secure_payment_items.platform_id text not null
column secure_payment_items.request_row text not null
column secure_payment_items.request_id text not null
column secure_payment_items.fee_basis_points integer
column secure_payment_items.fee_address text
column secure_payment_items.is_own_fee boolean not null
column secure_payment_items.protocol_basis_points integer
column secure_payment_items.protocol_address text
column secure_payment_items.protocol_cap text
column secure_payment_items.orchestrator_fees jsonb
column secure_payment_items.child_token text
constraint secure_payment_items.secure_payment_items_pkey PRIMARY KEY (platform_id, secure_payment_id, "position")
CREATE UNIQUE INDEX secure_payment_items_pkey ON public.secure_payment_items USING btree (platform_id, secure_payment_id, "position")
CREATE INDEX secure_payment_items_request_idx ON public.secure_payment_items USING btree (platform_id, request_row)
column secure_payment_owners.platform_id text not null
column secure_payment_owners.secure_payment_id text not null
column secure_payment_owners.wallet text not null
column secure_payment_owners.account text not null
column secure_payment_owners.proven_at timestamp with time zone not null
constraint secure_payment_owners.secure_payment_owners_pkey PRIMARY KEY (platform_id, secure_payment_id, wallet, account)
CREATE UNIQUE INDEX secure_payment_owners_pkey ON public.secure_payment_owners USING btree (platform_id, secure_payment_id, wallet, account)
column secure_payment_refusals.secure_payment_id text not null
column secure_payment_refusals.wallet text not null
column secure_payment_refusals.platform_id text not null
column secure_payment_refusals.occasions bigint not null
column secure_payment_refusals.told_at timestamp with time zone not null
constraint secure_payment_refusals.secure_payment_refusals_pkey PRIMARY KEY (platform_id, secure_payment_id, wallet)
CREATE UNIQUE INDEX secure_payment_refusals_pkey ON public.secure_payment_refusals USING btree (platform_id, secure_payment_id, wallet)
column secure_payment_safes.platform_id text not null
column secure_payment_safes.secure_payment_id text not null
column secure_payment_safes.safe text not null
column secure_payment_safes.handed_at timestamp with time zone not null
column secure_payment_safes.locked_at timestamp with time zone
constraint secure_payment_safes.secure_payment_safes_pkey PRIMARY KEY (platform_id, secure_payment_id, safe)
CREATE UNIQUE INDEX secure_payment_safes_pkey ON public.secure_payment_safes USING btree (platform_id, secure_payment_id, safe)
column secure_payments.id text not null
column secure_payments.token text not null
column secure_payments.platform_id text not null
column secure_payments.client_row text
column secure_payments.client_id text
column secure_payments.origin text
column secure_payments.flow text not null
column secure_payments.kind text not null
column secure_payments.status text not null
column secure_payments.network text not null
column secure_payments.destination_wallet text
column secure_payments.destination_token text
column secure_payments.creator text
column secure_payments.reference text
column secure_payments.payer_identifier text
column secure_payments.recipient_identifier text
column secure_payments.redirect_url text
column secure_payments.redirect_label text
column secure_payments.access_mode text not null
column secure_payments.access_provider text
column secure_payments.hides_until_approved boolean not null
column secure_payments.hides_payee boolean not null
column secure_payments.allowed_payers jsonb not null
column secure_payments.hinted_at timestamp with time zone
column secure_payments.created_at timestamp with time zone not null
column secure_payments.expires_at timestamp with time zone not null
column secure_payments.completed_at timestamp with time zone
column secure_payments.attempts jsonb
column secure_payments.orchestrator_id text
column secure_payments.locked_until timestamp with time zone
column secure_payments.locked_by text
column secure_payments.lock_hash text
column secure_payments.locks_released_at timestamp with time zone
constraint secure_payments.secure_payments_pkey PRIMARY KEY (platform_id, id)
CREATE INDEX secure_payments_expiry_idx ON public.secure_payments USING btree (status, expires_at)
CREATE UNIQUE INDEX secure_payments_pkey ON public.secure_payments USING btree (platform_id, id)
CREATE UNIQUE INDEX secure_payments_token_key ON public.secure_payments USING btree (token)
column sessions.id text not null
column sessions.token_hash text not null
column sessions.platform_id text not null
column sessions.wallet text
column sessions.account_id text
column sessions.created_at timestamp with time zone not null
column sessions.last_used_at timestamp with time zone not null
column sessions.expires_at timestamp with time zone not null
constraint sessions.sessions_pkey PRIMARY KEY (id)
CREATE INDEX sessions_account_idx ON public.sessions USING btree (platform_id, account_id)
CREATE INDEX sessions_expires_idx ON public.sessions USING btree (expires_at)
CREATE UNIQUE INDEX sessions_pkey ON public.sessions USING btree (id)
CREATE UNIQUE INDEX sessions_token_key ON public.sessions USING btree (token_hash)
CREATE INDEX sessions_wallet_idx ON public.sessions USING btree (platform_id, wallet)
column wallet_challenges.id text not null
column wallet_challenges.address text not null
column wallet_challenges.nonce text not null
column wallet_challenges.message text not null
column wallet_challenges.created_at timestamp with time zone not null
column wallet_challenges.expires_at timestamp with time zone not null
column wallet_challenges.used_at timestamp with time zone
column wallet_challenges.checks integer not null default 0
constraint wallet_challenges.wallet_challenges_pkey PRIMARY KEY (id)
CREATE INDEX wallet_challenges_expires_idx ON public.wallet_challenges USING btree (expires_at)
CREATE UNIQUE INDEX wallet_challenges_pkey ON public.wallet_challenges USING btree (id)
column wallets.address text not null
column wallets.platform_id text not null
column wallets.created_at timestamp with time zone not null
constraint wallets.wallets_pkey PRIMARY KEY (address)
CREATE UNIQUE INDEX wallets_pkey ON public.wallets USING btree (address)
CREATE UNIQUE INDEX wallets_platform_key ON public.wallets USING btree (platform_id)
column webhook_endpoints.id text not null
column webhook_endpoints.owner_id text not null
column webhook_endpoints.client_row text
column webhook_endpoints.url text not null
column webhook_endpoints.secret_sealed text not null
column webhook_endpoints.is_active boolean not null
column webhook_endpoints.created_at timestamp with time zone not null
column webhook_endpoints.former_secrets jsonb
column webhook_endpoints.failing_since timestamp with time zone
column webhook_endpoints.is_recovering boolean not null default false
column webhook_endpoints.header_prefix text
column webhook_endpoints.is_approved boolean not null default true
column webhook_endpoints.failed_at timestamp with time zone
constraint webhook_endpoints.webhook_endpoints_pkey PRIMARY KEY (id)
CREATE UNIQUE INDEX webhook_endpoints_client_url_key ON public.webhook_endpoints USING btree (owner_id, client_row, url)
CREATE UNIQUE INDEX webhook_endpoints_pkey ON public.webhook_endpoints USING btree (id)
CREATE UNIQUE INDEX webhook_endpoints_platform_url_key ON public.webhook_endpoints USING btree (owner_id, url) WHERE (client_row IS NULL)
CREATE INDEX webhook_endpoints_recovering_idx ON public.webhook_endpoints USING btree (id) WHERE is_recovering
