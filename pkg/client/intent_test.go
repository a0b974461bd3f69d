package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

func pageAt(cursor string) *apiv1.Page { return &apiv1.Page{Cursor: cursor} }

// refresh is the shortest intent.
func refresh() *intentv1.Intent {
	on := &intentv1.Selector{All: true}
	return &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{On: on}}}
}

func TestSubmitWaitsUntilTheIntentIsDecided(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	var asked atomic.Int32
	answer(t, serve(t, b, ledger.Registry), "GetIntent",
		func(q *registryv1.GetIntentRequest) (*registryv1.GetIntentResponse, error) {
			switch asked.Add(1) {
			case 1:
				return nil, fault.New(fault.NotFound, "not seen yet")
			case 2:
				return nil, fault.New(fault.Unavailable, "restarting")
			case 3:
				return &registryv1.GetIntentResponse{Intent: &intentv1.Record{Id: q.GetIntentId()}}, nil
			}
			return &registryv1.GetIntentResponse{Intent: &intentv1.Record{
				Id: q.GetIntentId(), State: intentv1.State_STATE_ACCEPTED, Changed: 3,
			}}, nil
		})
	r, err := connect(t, b).Submit(within(t), refresh())
	if err != nil || r.GetChanged() != 3 {
		t.Fatalf("%v (%v), want an accepted intent", r, err)
	}
	subject := topology.IntentSubject(topology.VerbRefresh, "ann", r.GetId())
	stored, err := b.Dial(t, "reader").Subjects(within(t), topology.Intents, subject)
	if err != nil || len(stored) != 1 {
		t.Errorf("%v (%v) is stored, want the intent under its id", stored, err)
	}
}

func TestARefusedIntentIsAnErrorWithItsRecordBesideIt(t *testing.T) {
	t.Parallel()
	for code, kind := range map[string]fault.Kind{
		"NO_MATCH": fault.Invalid, "PLAN_STALE": fault.Conflict, "CONFLICT": fault.Conflict, "DENIED": fault.Denied,
	} {
		b := bustest.Start(t)
		answer(t, serve(t, b, ledger.Registry), "GetIntent",
			func(q *registryv1.GetIntentRequest) (*registryv1.GetIntentResponse, error) {
				return &registryv1.GetIntentResponse{Intent: &intentv1.Record{
					Id: q.GetIntentId(), State: intentv1.State_STATE_REFUSED, Refusal: &apiv1.Refusal{Code: code},
				}}, nil
			})
		r, err := connect(t, b).Submit(within(t), refresh())
		if fault.RefusalOf(err).GetCode() != code || fault.KindOf(err) != kind || r.GetRefusal().GetCode() != code {
			t.Errorf("%v of kind %v with %v, want %s of kind %v", err, fault.KindOf(err), r, code, kind)
		}
	}
}

func TestAnIntentWhoseDecisionIsUnknownNamesItsID(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r, err := connect(t, bustest.Start(t)).Submit(ctx, refresh()) // no registry answers
	if !errors.Is(err, context.DeadlineExceeded) || r.GetId() == "" || !strings.Contains(err.Error(), r.GetId()) {
		t.Errorf("%v with record %v, want a deadline and the id", err, r)
	}
}

func TestAnIntentThatIsPublishedAgainIsStoredOnce(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c, id := connect(t, b), client.NewID()
	for range 3 {
		if err := c.Publish(within(t), id, refresh()); err != nil {
			t.Fatal(err)
		}
	}
	s, err := b.Dial(t, "reader").Stream(within(t), topology.Intents)
	if err != nil || s.Messages != 1 {
		t.Errorf("%d intents are stored (%v), want 1", s.Messages, err)
	}
	if err := c.Publish(within(t), id, &intentv1.Intent{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v, want Invalid for an intent without an ask", err)
	}
}

// planOf answers with a plan of 2,500 servers; from the part at changes on it is another plan.
func planOf(t testing.TB, b *bustest.Bus, changes string) {
	t.Helper()
	answer(t, serve(t, b, ledger.Registry), "PlanIntent",
		func(q *registryv1.PlanIntentRequest) (*registryv1.PlanIntentResponse, error) {
			var from int
			_, _ = fmt.Sscan(q.GetPage().GetCursor(), &from)
			plan := &intentv1.Plan{Changed: 2500, TargetsSha256: []byte("one")}
			if changes != "" && q.GetPage().GetCursor() >= changes {
				plan.TargetsSha256 = []byte("two")
			}
			r := &registryv1.PlanIntentResponse{Plans: []*intentv1.Plan{plan}}
			to := min(2500, from+int(q.GetPage().GetLimit()))
			for i := from; i < to; i++ {
				r.Targets = append(r.Targets, &intentv1.Target{ServerName: fmt.Sprint(i)})
			}
			if to < 2500 {
				r.NextCursor = fmt.Sprint(to)
			}
			return r, nil
		})
}

func TestAPlanIsReadInPartsOfOneState(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	planOf(t, b, "")
	c := connect(t, b)
	for limit, want := range map[int]int{0: 2500, 50: 50, 1500: 1500} {
		p, err := c.Plan(within(t), &registryv1.PlanIntentRequest{Intent: refresh()}, limit)
		if err != nil || len(p.GetPlans()) != 1 || len(p.GetTargets()) != want {
			t.Errorf("limit %d: %d plans, %d targets (%v)", limit, len(p.GetPlans()), len(p.GetTargets()), err)
		}
	}
}

func TestAPlanOfAFleetThatChangesMeanwhileIsAConflict(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	planOf(t, b, "2000")
	_, err := connect(t, b).Plan(within(t), &registryv1.PlanIntentRequest{Intent: refresh()}, 0)
	if fault.RefusalOf(err).GetCode() != "CONFLICT" || !fault.Is(err, fault.Conflict) {
		t.Errorf("%v, want CONFLICT", err)
	}
}

// The Go program in proto/INTENTS.md compiles, because it is part of an example here.
func TestTheGoProgramOfTheContractIsAnExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../proto/INTENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(page)
	if code == nil {
		t.Fatal("proto/INTENTS.md has no Go program")
	}
	have := strings.ReplaceAll(string(examples), "\n\t", "\n")
	if !strings.Contains(have, string(code[1])) {
		t.Errorf("no example holds this program:\n%s", code[1])
	}
}
