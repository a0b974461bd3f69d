package operator

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

func writeLedger(t testing.TB, b *bustest.Bus) {
	w := b.Writer(t, b.Dial(t, "writer"))
	fact := func(n ledger.Noun, key, source, actor string, body proto.Message) ledger.Draft {
		return ledger.Free(ledger.Fact{
			Noun:    n,
			Key:     key,
			Body:    body,
			ID:      ident.New(),
			At:      noon,
			Source:  source,
			Actor:   actor,
			Request: web2,
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := w.Append(
		ctx,
		fact(ledger.Agent, "beacon", ledger.Registry, "ann", &agentv1.Created{
			Agent: &agentv1.Agent{Name: "beacon", Kind: agentv1.Kind_KIND_DAEMON, Description: "says its version"},
		}),
		fact(ledger.Server, web1, ledger.Registry, ledger.Registry, &serverv1.Online{BootId: "b1"}),
		fact(ledger.Instance, ledger.Key(web1, "beacon"), ledger.Registry, "ann",
			&instancev1.Wanted{Generation: 1, Image: &imagev1.Ref{Version: "1.0.0"}}),
		fact(ledger.Task, "65d947de-86d0-58e2-bb0a-b7dc3d59300f", ledger.Dispatcher, ledger.Dispatcher,
			&taskv1.Queued{Verb: taskv1.Verb_VERB_INSTALL, Agent: "beacon", To: &imagev1.Ref{Version: "1.0.0"}}),
	)
	if err != nil {
		t.Fatal(err)
	}
}
