package admission

import (
	"context"
	"iter"
	"net/netip"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/noun/token"
	"github.com/garrison-fleet/garrison/pkg/page"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

const (
	// maxUses is how many servers may join with one token.
	maxUses = 100_000
	// maxRanges bounds the address ranges of one token.
	maxRanges = 32
)

// Tokens answers requests about pooled tokens.
type Tokens struct {
	admission *Desk
	log       zerolog.Logger
}

// NewTokens returns what answers requests about pooled tokens.
func NewTokens(a *Desk, log zerolog.Logger) *Tokens {
	return &Tokens{admission: a, log: log}
}

// Create makes a token. Only the hash of its secret is recorded, so it cannot be shown again.
func (a *Tokens) Create(
	ctx context.Context, c bus.Caller, q *registryv1.CreateTokenRequest,
) (*registryv1.CreateTokenResponse, error) {
	created, err := a.created(q)
	if err != nil {
		return nil, err
	}
	made, guest, err := a.admission.Token(q.Name, created.Cell, created.ExpiresAt)
	if err != nil {
		return nil, err
	}
	made.ServerID, made.Pool = "", q.Name
	created.SecretSha256, created.GuestKey = SumOf(made.Secret), guest
	r := a.admission.records
	err = r.Change(ctx, func() ([]ledger.Draft, error) {
		if _, exists := r.View.Token(q.Name); exists {
			return nil, request.AlreadyExists("token", q.Name, "another name; a token keeps its name for good")
		}
		return []ledger.Draft{r.ByCaller(c, ledger.Token, q.Name, created)}, r.CheckEnvironment(created.Environment)
	})
	if err != nil {
		return nil, err
	}
	a.log.Info().Str("token", q.Name).Uint32("uses", q.Uses).Str(logs.Actor, c.Actor).Msg("token created")
	t, err := a.copy(ctx, q.Name)
	return request.Answer(&registryv1.CreateTokenResponse{Token: t, Secret: made.String()}, err)
}

// created checks a request and fills in the defaults.
func (a *Tokens) created(q *registryv1.CreateTokenRequest) (*tokenv1.Token, error) {
	invited, err := a.admission.invitation(&registryv1.InviteServerRequest{
		Name: q.Name, Cell: q.Cell, Labels: q.Labels, Environment: q.Environment, Ownership: q.Ownership,
		ValidFor: q.ValidFor,
	})
	if err != nil {
		return nil, err
	}
	if err := ident.CheckName("token", q.Name); err != nil {
		return nil, request.BadName(err)
	}
	if q.Uses < 1 || q.Uses > maxUses {
		return nil, request.Invalid(code.Invalid, "a token for %d servers; want 1 to %d", q.Uses, maxUses)
	}
	ranges, err := addressRanges(q.FromAddresses)
	if err != nil {
		return nil, err
	}
	from := q.NameFrom
	switch from {
	case tokenv1.NameFrom_NAME_FROM_UNSPECIFIED:
		from = tokenv1.NameFrom_NAME_FROM_HOSTNAME
	case tokenv1.NameFrom_NAME_FROM_HOSTNAME, tokenv1.NameFrom_NAME_FROM_ID:
	default:
		return nil, request.Invalid(code.Malformed, "names of servers from %v", from)
	}
	return &tokenv1.Token{
		Uses: q.Uses, ExpiresAt: invited.ExpiresAt, Cell: invited.Cell, Environment: invited.Environment,
		Labels: invited.Labels, Ownership: invited.Ownership, FromAddresses: ranges, NameFrom: from,
	}, nil
}

// addressRanges returns prefixes in their shortest form; an address alone is a range of its own.
func addressRanges(texts []string) (out []string, err error) {
	if len(texts) > maxRanges {
		return nil, request.Invalid(code.Invalid, "%d address ranges; %d are the most", len(texts), maxRanges)
	}
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if a, e := netip.ParseAddr(text); err != nil && e == nil && a.Zone() == "" {
			prefix, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, request.Invalid(code.Invalid,
				"address range %.60q; want a prefix such as 10.0.0.0/8", text)
		}
		if prefix.Masked() != prefix {
			return nil, fault.Refusef(fault.Invalid, code.Invalid,
				"address range %s has bits beyond its length", prefix).Near(prefix.Masked().String())
		}
		out = append(out, prefix.String())
	}
	return out, nil
}

// List returns pooled tokens, a page at a time.
func (a *Tokens) List(
	ctx context.Context, _ bus.Caller, q *registryv1.ListTokensRequest,
) (*registryv1.ListTokensResponse, error) {
	if q.Name != "" {
		t, err := a.copy(ctx, q.Name)
		return request.Answer(&registryv1.ListTokensResponse{Tokens: []*tokenv1.Token{t}}, err)
	}
	r := a.admission.records
	part, err := records.List(ctx, r, q.Page, func(after string) (iter.Seq2[string, *tokenv1.Token], error) {
		return page.Map(r.View.Tokens(after), func(_ string, t *tokenv1.Token) *tokenv1.Token {
			return a.shown(t)
		}), nil
	})
	return request.Answer(&registryv1.ListTokensResponse{
		Tokens: part.Rows, NextCursor: part.Next, LeftOut: part.LeftOut,
	}, err)
}

// Revoke makes a token void. It is safe to run twice.
func (a *Tokens) Revoke(
	ctx context.Context, c bus.Caller, q *registryv1.RevokeTokenRequest,
) (*registryv1.RevokeTokenResponse, error) {
	if !request.Printable(q.Reason, request.MaxDescription) {
		return nil, request.Invalid(code.Invalid,
			"a reason must be printable and have %d bytes at most", request.MaxDescription)
	}
	r := a.admission.records
	err := r.Change(ctx, func() ([]ledger.Draft, error) {
		t, err := a.find(q.Name)
		if err != nil || t.State == tokenv1.State_STATE_REVOKED {
			return nil, err
		}
		return []ledger.Draft{r.ByCaller(c, ledger.Token, q.Name, &tokenv1.Revoked{Reason: q.Reason})}, nil
	})
	if err != nil {
		return nil, err
	}
	a.log.Info().Str("token", q.Name).Str(logs.Actor, c.Actor).Msg("token revoked")
	t, err := a.copy(ctx, q.Name)
	return request.Answer(&registryv1.RevokeTokenResponse{Token: t}, err)
}

// find returns a token by name. It must run inside Read.
func (a *Tokens) find(name string) (*tokenv1.Token, error) {
	v := a.admission.records.View
	if t, ok := v.Token(name); ok {
		return t, nil
	}
	return nil, fault.Refusef(fault.NotFound, code.UnknownToken, "no token is named %.80q", name).
		Near(nearest.Name(name, v.TokenNames())).Try("garrison token list")
}

// copy returns a token for an answer.
func (a *Tokens) copy(ctx context.Context, name string) (out *tokenv1.Token, err error) {
	err = a.admission.records.Decider.Query(ctx, func() error {
		t, err := a.find(name)
		if err == nil {
			out = a.shown(t)
		}
		return err
	})
	return out, err
}

// shown returns a copy of a token without what lets in.
func (a *Tokens) shown(t *tokenv1.Token) *tokenv1.Token {
	t = proto.CloneOf(t)
	t.State = token.StateAt(t, a.admission.records.Now())
	t.SecretSha256, t.GuestKey = nil, ""
	return t
}
