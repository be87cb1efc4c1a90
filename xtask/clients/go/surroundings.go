package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"

	"golden/v2"
)

const (
	wait = 30 * time.Second
	poll = 50 * time.Millisecond
)

// Dev is the part of the line of `prs dev --json` that the flow needs.
type Dev struct {
	BaseURL       string `json:"baseUrl"`
	AuthURL       string `json:"authUrl"`
	APIKey        string `json:"apiKey"`
	DestinationID string `json:"destinationId"`
	Chain         struct {
		RPCURL   string `json:"rpcUrl"`
		Accounts []struct {
			Address string `json:"address"`
		} `json:"accounts"`
	} `json:"chain"`
}

func readDev() (*Dev, error) {
	text, err := os.ReadFile(os.Getenv("PRS_DEV"))
	if err != nil {
		return nil, err
	}
	dev := new(Dev)
	return dev, json.Unmarshal(text, dev)
}

func (d *Dev) payer() string { return d.Chain.Accounts[0].Address }
func (d *Dev) payee() string { return d.Chain.Accounts[1].Address }

type receipt struct {
	Status string `json:"status"`
}

// call is a transaction that a wallet signs.
type call struct{ to, data, value string }

// ofRequest reads the transactions of a request or a payout.
func ofRequest(transactions []v2.Transaction) []call {
	var calls []call
	for _, transaction := range transactions {
		calls = append(calls, call{transaction.To, transaction.Data, transaction.Value.Hex})
	}
	return calls
}

// ofLink reads the transactions of a link.
func ofLink(transactions []v2.SecureTransaction) []call {
	var calls []call
	for _, transaction := range transactions {
		calls = append(calls, call{transaction.To, transaction.Data, transaction.Value})
	}
	return calls
}

// send sends transactions in order from an account that the local node has unlocked.
func (d *Dev) send(ctx context.Context, calls []call) error {
	for _, call := range calls {
		value, ok := new(big.Int).SetString(call.value, 0)
		if !ok {
			return fmt.Errorf("%q is not a number", call.value)
		}
		sent := map[string]string{
			"from": d.payer(), "to": call.to, "data": call.data, "value": fmt.Sprintf("%#x", value),
		}
		var hash string
		if err := d.rpc(ctx, "eth_sendTransaction", sent, &hash); err != nil {
			return err
		}
		var found *receipt
		for deadline := time.Now().Add(wait); found == nil; time.Sleep(poll) {
			if time.Now().After(deadline) {
				return fmt.Errorf("transaction %s was not included in a block", hash)
			}
			if err := d.rpc(ctx, "eth_getTransactionReceipt", hash, &found); err != nil {
				return err
			}
		}
		if found.Status != "0x1" {
			return fmt.Errorf("transaction %s failed on the chain", hash)
		}
	}
	return nil
}

func (d *Dev) rpc(ctx context.Context, method string, parameter, result any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": []any{parameter}})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Chain.RPCURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("content-type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return fmt.Errorf("%s: %s", method, answer.Error)
	}
	return json.Unmarshal(answer.Result, result)
}

// step prints that a step of the flow passed.
func step(name string) { fmt.Println("step", name) }

// isSigned says whether the service signed these bytes: an HMAC-SHA-256 over the raw body, keyed with the secret as it
// was shown.
func isSigned(body []byte, signature, secret string) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	given, err := hex.DecodeString(signature)
	return err == nil && hmac.Equal(given, mac.Sum(nil))
}

type delivery struct {
	body      []byte
	signature string
}

// Hooks is a receiver of webhooks on a free port of this machine.
type Hooks struct {
	url        string
	deliveries chan delivery
}

func listen() (*Hooks, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	hooks := &Hooks{url: fmt.Sprintf("http://%s/hook", listener.Addr()), deliveries: make(chan delivery, 64)}
	server := &http.Server{ReadHeaderTimeout: wait, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		hooks.deliveries <- delivery{body, r.Header.Get("x-service-signature")}
	})}
	go func() { _ = server.Serve(listener) }()
	return hooks, nil
}

// confirmed waits for the event that a request is paid, and checks that its signature matches only its own bytes.
func (h *Hooks) confirmed(requestID, secret string) error {
	deadline := time.After(wait)
	for {
		select {
		case <-deadline:
			return fmt.Errorf("no payment.confirmed of %s", requestID)
		case found := <-h.deliveries:
			var event struct{ Event, RequestID string }
			if err := json.Unmarshal(found.body, &event); err != nil {
				return err
			}
			if event.Event != "payment.confirmed" || event.RequestID != requestID {
				continue
			}
			if !isSigned(found.body, found.signature, secret) {
				return fmt.Errorf("the signature does not match the body")
			}
			if isSigned(append(found.body, ' '), found.signature, secret) {
				return fmt.Errorf("the signature matches another body")
			}
			return nil
		}
	}
}
