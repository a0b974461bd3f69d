package instances

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/beats"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
)

func TestAnInstanceIsConfirmedByABeatOrByTheReportThatDiffered(t *testing.T) {
	at := func(seconds int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: seconds} }
	for name, c := range map[string]struct{ observed, beat, want *timestamppb.Timestamp }{
		"the beat is later":    {at(1), at(2), at(2)},
		"the report is later":  {at(3), at(2), at(3)},
		"nothing was observed": {nil, at(2), at(2)},
		"no beat came yet":     {at(3), nil, nil},
	} {
		if have := confirmedAt(&instancev1.Instance{ObservedAt: c.observed}, c.beat); !proto.Equal(have, c.want) {
			t.Errorf("%s: %v, want %v", name, have, c.want)
		}
	}
}

func TestARowHasSinceWhenItsServerIsOffline(t *testing.T) {
	t.Parallel()
	w := recordstest.New(t)
	w.Agent("web")
	w.Image("web", "1.0.0")
	id := w.Server("web-1", "")
	w.Accept("install", &intentv1.Intent{Ask: &intentv1.Intent_Install{
		Install: &intentv1.Install{Agent: "web", On: recordstest.On(id)},
	}})
	watch := beats.New(w.Records, nil, time.Second, nil, nil, zerolog.Nop())
	api := NewAPI(w.Records, watch, NewExternals(w.Records, zerolog.Nop()))
	since := func() *timestamppb.Timestamp {
		rows := recordstest.Call(w, api.List, &registryv1.ListInstancesRequest{}).Instances
		if len(rows) != 1 {
			t.Fatalf("listed %v", rows)
		}
		return rows[0].OfflineSince
	}
	if at := since(); at != nil {
		t.Errorf("a server that is online is offline since %s", at.AsTime())
	}
	w.At = w.At.Add(time.Hour)
	w.Fact(ledger.Server, id, &serverv1.Offline{})
	if at := since(); !at.AsTime().Equal(w.At) {
		t.Errorf("it is offline since %v; want %s", at, w.At)
	}
}
