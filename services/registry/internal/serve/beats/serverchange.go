package beats

import (
	"context"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
)

// serverChanges records changes of servers that the registry itself noticed.
type serverChanges struct {
	records *records.Records
	log     zerolog.Logger
}

// serverChange is one such change.
type serverChange struct {
	draft ledger.Draft
	name  string
}

// draft drafts a change. Beats cause it, but for what follows from silence or from the budget. It must
// run inside Read.
func (c *serverChanges) draft(s *serverv1.Server, body proto.Message) serverChange {
	cause := ledger.CausedByBeat(s.Id)
	switch body.(type) {
	case *serverv1.Offline, *serverv1.Quarantined:
		cause = ledger.CausedByClock
	}
	f := c.records.Own(ledger.Server, s.Id, body, cause)
	return serverChange{draft: c.records.Guard(f), name: s.Name}
}

// record records a change. A Conflict means that another replica recorded it, or that the server
// changed; the next sweep decides again.
func (c *serverChanges) record(ctx context.Context, change serverChange) {
	_, err := c.records.Decider.Append(ctx, change.draft)
	id, fact := change.draft.Key, change.draft.Name()
	switch {
	case err == nil && fact == "quarantined":
		why := change.draft.Body.(*serverv1.Quarantined)
		c.log.Warn().Str(logs.Server, id).Str("name", change.name).Str(logs.Code, why.Code).
			Str(logs.Reason, why.Reason).Msg("server quarantined")
	case err == nil:
		c.log.Info().Str(logs.Server, id).Str("name", change.name).Str("change", fact).Msg("server changed")
	case ctx.Err() == nil && !fault.Is(err, fault.Conflict):
		c.log.Warn().Err(err).Str(logs.Server, id).Str("change", fact).Msg("change of a server not recorded")
	}
}
