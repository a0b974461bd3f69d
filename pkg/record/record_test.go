package record_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

func Example() {
	q := record.Create(&agentv1.Agent{Name: "beacon"})
	fmt.Println(record.NounOf(record.Body(q.Record)), record.As[*agentv1.Agent](q.Record).Name, q.Expect)
	// Output: agent beacon EXPECT_ABSENT
}

func TestEveryRecordIsOfANounOfTheLedgerAndHasAList(t *testing.T) {
	t.Parallel()
	var nouns []ledger.Noun
	r := (&registryv1.Record{}).ProtoReflect()
	for i := range r.Descriptor().Fields().Len() {
		body := r.NewField(r.Descriptor().Fields().Get(i)).Message().Interface()
		nouns = append(nouns, record.NounOf(body))
		if record.FieldOf(&registryv1.ListRecordsResponse{}, body) == nil {
			t.Errorf("no list holds records of the noun %s", record.NounOf(body))
		}
	}
	want := []ledger.Noun{
		ledger.Application, ledger.Environment, ledger.Agent, ledger.LabelRule, ledger.Hold, ledger.Block,
	}
	if !slices.Equal(nouns, want) {
		t.Errorf("have %v, want %v", nouns, want)
	}
}

func TestARecordOfAnotherNounIsNil(t *testing.T) {
	t.Parallel()
	r := record.Of(&applicationv1.Application{Name: "shop"})
	if a := record.As[*agentv1.Agent](r); a != nil || record.Body(&registryv1.Record{}) != nil {
		t.Errorf("have %v", a)
	}
}
