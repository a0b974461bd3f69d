package actor

import (
	"context"
	"net/http"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// mostToken bounds a token; one of a long name has less than 1 KiB.
const mostToken = 4 << 10

// Admit returns the connection of the actor whose bearer token a request has, as Take does.
func (p *Pool) Admit(r *http.Request) (c *client.Client, done func(), err error) {
	token, err := TokenOf(r)
	if err != nil {
		return nil, nil, err
	}
	return p.Take(r.Context(), token)
}

// TokenOf returns the bearer token of a request. An error is Denied.
func TokenOf(r *http.Request) (string, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > mostToken {
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
