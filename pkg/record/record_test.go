package record_test

import (
	"fmt"
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

// The names of the fields are those of the nouns in the ledger, so that a new noun needs no table.
func TestEveryRecordIsOfANounOfTheLedger(t *testing.T) {
	t.Parallel()
	fields := (&registryv1.Record{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		body := (&registryv1.Record{}).ProtoReflect().NewField(fields.Get(i)).Message().Interface()
		if noun := record.NounOf(body); noun.Writer() != ledger.Registry {
			t.Errorf("%s is no noun of the registry", noun)
		}
		if record.FieldOf(&registryv1.ListRecordsResponse{}, body) == nil {
			t.Errorf("no list holds records of the noun %s", record.NounOf(body))
		}
	}
}

func TestARecordOfAnotherNounIsNil(t *testing.T) {
	t.Parallel()
	r := record.Of(&applicationv1.Application{Name: "shop"})
	if a := record.As[*agentv1.Agent](r); a != nil || record.Body(&registryv1.Record{}) != nil {
		t.Errorf("have %v", a)
	}
}
