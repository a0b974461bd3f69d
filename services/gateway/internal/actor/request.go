package actor

import (
	"context"
	"net/http"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Token returns the bearer token of a request. An error is Denied.
func Token(r *http.Request) (string, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", fault.Refusef(fault.Denied, code.LoginRefused,
			"the request has no bearer token, as in: Authorization: Bearer TOKEN").
			Try("garrison context token")
	}
	return strings.TrimSpace(token), nil
}

type key struct{}

// With returns a context of a request that acts as an actor.
func With(ctx context.Context, c *client.Client) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// From returns the connection of the actor for whom a request acts. The context must be of With.
func From(ctx context.Context) *client.Client { return ctx.Value(key{}).(*client.Client) }
