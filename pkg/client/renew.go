package client

import (
	"context"
	"fmt"
	"time"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/pkg/trust"
)

// RenewalDue reports whether less than a third of the life of a context's credentials is left. It is false for
// credentials that do not expire.
func RenewalDue(who trust.Context, at time.Time) bool {
	from, until := trust.Times(who.JWT)
	return !until.IsZero() && until.Sub(at) < until.Sub(from)/3
}

// Renew has the credentials of a context signed again for the same key, learns the CAs
// of the bus, and writes both to the context's file. The
// old ones stay valid until they expire.
func (c *Client) Renew(ctx context.Context, who trust.Context) (trust.Context, error) {
	r, err := Call[*accessv1.RenewSelfResponse](ctx, c, &accessv1.RenewSelfRequest{PublicKey: who.PublicKey()})
	if err != nil {
		return who, err
	}
	who.JWT = r.GetJwt()
	if r.GetBusCa() != "" {
		who.CA = r.GetBusCa()
	}
	if who.File == "" {
		return who, nil
	}
	if err := who.Write(who.File); err != nil {
		return who, fmt.Errorf("keep the renewed credentials: %w", err)
	}
	return who, nil
}
