package servers

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
)

func TestAServerNamesWhatClosesItsEnvironment(t *testing.T) {
	t.Parallel()
	w := recordstest.New(t)
	until := w.At.Add(time.Hour)
	w.Fact(ledger.Environment, "prod", &environmentv1.Created{Environment: &environmentv1.Environment{
		Freezes: []*environmentv1.Freeze{{Until: timestamppb.New(until), Reason: "end of the year"}},
	}})
	a := &API{records: w.Records}
	if have := a.closed(&serverv1.Server{}); have != nil {
		t.Errorf("without an environment: %v", have)
	}
	in := &serverv1.Server{Environment: "prod"}
	if have := a.closed(in); have.GetEnvironment() != "prod" || have.Reason == "" ||
		!have.OpensAt.AsTime().Equal(until) {
		t.Errorf("frozen: %v", have)
	}
	w.At = until
	if have := a.closed(in); have != nil {
		t.Errorf("afterwards: %v", have)
	}
}
