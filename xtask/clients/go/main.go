// The golden flow with the client of openapi-generator, which needs the standard library alone.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"golden/auth"
	"golden/v2"
)

type flow struct {
	ctx       context.Context
	dev       *Dev
	service   *v2.APIClient
	hooks     *Hooks
	secret    string
	reference string
}

func (f *flow) asked(amount string) v2.CreateRequestBody {
	body := v2.NewCreateRequestBody(amount, "FAU-sepolia", "FAU-sepolia")
	body.SetPayee(f.dev.payee())
	body.SetReference(f.reference)
	return *body
}

func (f *flow) pay(requestID string) error {
	answer, _, err := f.service.RequestsAPI.GetPaymentCalldata(f.ctx, requestID).Wallet(f.dev.payer()).Execute()
	if err != nil {
		return err
	}
	if answer.PaymentCalldata == nil {
		return errors.New("a payment on one chain must not be an intent")
	}
	return f.dev.send(f.ctx, ofRequest(answer.PaymentCalldata.Transactions))
}

// refusal is the typed body of an error.
func refusal(err error) (*v2.ErrorBody, error) {
	var failed *v2.GenericOpenAPIError
	if !errors.As(err, &failed) {
		return nil, fmt.Errorf("this should have been refused: %w", err)
	}
	body, ok := failed.Model().(v2.ErrorBody)
	if !ok {
		return nil, fmt.Errorf("a refusal without its body: %s", failed.Body())
	}
	return &body, nil
}

func (f *flow) create() (string, error) {
	create := func() (*v2.RequestCreated, *http.Response, error) {
		call := f.service.RequestsAPI.CreateRequest(f.ctx).CreateRequestBody(f.asked("1.5"))
		return call.IdempotencyKey(f.reference).Execute()
	}
	created, _, err := create()
	if err != nil {
		return "", err
	}
	again, _, err := create()
	if err != nil {
		return "", err
	}
	if again.RequestId != created.RequestId {
		return "", errors.New("an idempotency key must create only once")
	}
	return created.RequestId, nil
}

func (f *flow) search(requestID string) error {
	read, _, err := f.service.RequestsAPI.GetRequest(f.ctx, requestID).Execute()
	if err != nil {
		return err
	}
	if !read.HasBeenPaid {
		return errors.New("a confirmed request must be paid")
	}
	found, _, err := f.service.PaymentsAPI.SearchPayments(f.ctx).RequestId(requestID).Execute()
	if err != nil {
		return err
	}
	if found.Pagination.Total != 1 || found.Payments[0].Amount != "1.5" {
		return errors.New("the payment must be found by its request")
	}
	return nil
}

func (f *flow) page() error {
	second, _, err := f.service.RequestsAPI.CreateRequest(f.ctx).CreateRequestBody(f.asked("1.5")).Execute()
	if err != nil {
		return err
	}
	if err := f.pay(second.RequestId); err != nil {
		return err
	}
	if err := f.hooks.confirmed(second.RequestId, f.secret); err != nil {
		return err
	}
	seen := map[string]bool{}
	search := f.service.PaymentsAPI.SearchPayments(f.ctx).Reference(f.reference).Limit("1")
	for {
		page, _, err := search.Execute()
		if err != nil {
			return err
		}
		if len(page.Payments) > 1 {
			return errors.New("a page must have one payment")
		}
		for _, payment := range page.Payments {
			seen[payment.Id] = true
		}
		cursor := page.NextCursor.Get()
		if cursor == nil {
			break
		}
		search = search.Cursor(*cursor)
	}
	if len(seen) != 2 {
		return fmt.Errorf("two payments must be paged through, not %d", len(seen))
	}
	return nil
}

func (f *flow) refuse() error {
	// The document allows it, but the token has fewer digits.
	_, _, err := f.service.RequestsAPI.CreateRequest(f.ctx).CreateRequestBody(f.asked("0.0000000000000000001")).Execute()
	refused, err := refusal(err)
	if err != nil {
		return err
	}
	if refused.StatusCode != 400 || len(refused.Errors) != 1 || refused.Errors[0].Field != "amount" {
		return errors.New("the refusal must name the field")
	}
	_, _, err = f.service.RequestsAPI.GetRequest(f.ctx, "01"+strings.Repeat("0", 64)).Execute()
	refused, err = refusal(err)
	if err != nil {
		return err
	}
	if refused.StatusCode != 404 {
		return errors.New("an unknown request must not be found")
	}
	return nil
}

func (f *flow) payout() error {
	body := v2.NewCreatePayoutBody(f.dev.payee(), "2", "FAU-sepolia", "FAU-sepolia")
	body.SetPayerWallet(f.dev.payer())
	body.SetReference(f.reference)
	answer, _, err := f.service.PayoutsAPI.CreatePayout(f.ctx).CreatePayoutBody(*body).Execute()
	if err != nil {
		return err
	}
	if answer.PayoutCreated == nil {
		return errors.New("a one-time payout must not be recurring")
	}
	if err := f.dev.send(f.ctx, ofRequest(answer.PayoutCreated.Transactions)); err != nil {
		return err
	}
	return f.hooks.confirmed(answer.PayoutCreated.RequestId, f.secret)
}

func (f *flow) link() error {
	item := v2.NewSecurePaymentItem("3")
	item.SetDestinationId(f.dev.DestinationID)
	body := v2.NewCreateSecurePaymentBody([]v2.SecurePaymentItem{*item})
	body.SetReference(f.reference)
	links := f.service.SecurePaymentsAPI
	link, _, err := links.CreateSecurePayment(f.ctx).CreateSecurePaymentBody(*body).Execute()
	if err != nil {
		return err
	}
	viewed, _, err := links.GetSecurePayment(f.ctx, link.Token).Execute()
	if err != nil {
		return err
	}
	if viewed.SingleSecurePayment == nil || viewed.SingleSecurePayment.Amount != "3" {
		return errors.New("the link must show its one amount")
	}
	calldata, _, err := links.GetSecurePaymentCalldata(f.ctx, link.Token).Wallet(f.dev.payer()).Execute()
	if err != nil {
		return err
	}
	if calldata.SingleCalldata == nil {
		return errors.New("one amount must be paid by a list of transactions")
	}
	if err := f.dev.send(f.ctx, ofLink(calldata.SingleCalldata.Transactions)); err != nil {
		return err
	}
	return f.hooks.confirmed(link.RequestIds[0], f.secret)
}

func run() error {
	dev, err := readDev()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()

	settings := v2.NewConfiguration()
	settings.Servers = v2.ServerConfigurations{{URL: dev.BaseURL}}
	settings.AddDefaultHeader("x-api-key", dev.APIKey)
	authSettings := auth.NewConfiguration()
	authSettings.Servers = auth.ServerConfigurations{{URL: dev.AuthURL}}
	authSettings.AddDefaultHeader("x-api-key", dev.APIKey)
	webhooks := auth.NewAPIClient(authSettings).WebhooksAPI

	hooks, err := listen()
	if err != nil {
		return err
	}
	hook, _, err := webhooks.CreateWebhook(ctx).CreateWebhookBody(*auth.NewCreateWebhookBody(hooks.url)).Execute()
	if err != nil {
		return err
	}
	f := &flow{ctx, dev, v2.NewAPIClient(settings), hooks, hook.Secret, fmt.Sprintf("go-%d", time.Now().UnixNano())}

	created, err := f.create()
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	step("create")
	steps := []struct {
		name string
		run  func() error
	}{
		{"pay", func() error { return f.pay(created) }},
		{"webhook", func() error { return hooks.confirmed(created, hook.Secret) }},
		{"search", func() error { return f.search(created) }},
		{"page", f.page},
		{"refuse", f.refuse},
		{"payout", f.payout},
		{"link", f.link},
	}
	for _, part := range steps {
		if err := part.run(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		step(part.name)
	}
	_, _, err = webhooks.DeleteWebhook(ctx, hook.Id).Execute()
	return err
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
