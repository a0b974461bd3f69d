package table_test

import (
	"errors"
	"testing"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/declarations"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/table"
)

func start(t *testing.T) (*recordstest.World, *table.API) {
	w := recordstest.New(t)
	return w, table.New(w.Records, zerolog.Nop(), declarations.Nouns(w.Records)...)
}

func shop(description string) *applicationv1.Application {
	return &applicationv1.Application{Name: "shop", Description: description}
}

func TestARecordIsPutAsItIsExpected(t *testing.T) {
	t.Parallel()
	w, api := start(t)
	for _, c := range []struct {
		what string
		q    *registryv1.PutRecordRequest
		want string
	}{
		{"a change of none", record.Change(shop("a")), code.NotFound},
		{"whatever is there", record.Set(shop("set")), ""},
		{"a new one that exists", record.Create(shop("b")), code.Exists},
		{"a change", record.Change(shop("c")), ""},
		{"the same again", record.Change(shop("c")), ""},
		{"nothing", &registryv1.PutRecordRequest{}, code.Malformed},
	} {
		if have := recordstest.Code(w, api.Put, c.q); have != c.want {
			t.Errorf("%s: %q, want %q", c.what, have, c.want)
		}
	}
	if names := w.Names(ledger.Application, "shop"); len(names) != 2 {
		t.Errorf("recorded %v, want created and changed", names)
	}
}

func TestADryRunChecksARecordAndRecordsNothing(t *testing.T) {
	t.Parallel()
	w, api := start(t)
	r, err := recordstest.Dry(w, api.Put, record.Create(shop("dry")))
	if have := r.GetRecord().GetApplication().GetDescription(); have != "dry" || !errors.Is(err, bus.ErrDryRun) {
		t.Errorf("answered %q, %v", have, err)
	}
	_, err = recordstest.Dry(w, api.Put, record.Create(&applicationv1.Application{Name: "A b"}))
	if have := recordstest.CodeOf(err); have != code.BadName {
		t.Errorf("a wrong one: %q", have)
	}
	recordstest.Call(w, api.Put, record.Create(shop("a")))
	if _, err = recordstest.Dry(w, api.Put, record.Change(shop("a"))); err != nil {
		t.Errorf("one that changes nothing: %v", err)
	}
	_, err = recordstest.Dry(w, api.Delete, record.Delete(ledger.Application, "shop", 0))
	if !errors.Is(err, bus.ErrDryRun) {
		t.Errorf("a deletion: %v", err)
	}
	if names := w.Names(ledger.Application, "shop"); len(names) != 1 {
		t.Errorf("recorded %v; want the one that was no dry run", names)
	}
}

func TestAListAndADeletionNameANounThatIsKept(t *testing.T) {
	t.Parallel()
	w, api := start(t)
	recordstest.Call(w, api.Put, record.Create(shop("a")))
	list := recordstest.Call(w, api.List, record.List(ledger.Application))
	if len(list.Applications) != 1 || list.Noun != "application" {
		t.Errorf("listed %v", list)
	}
	if have := recordstest.Code(w, api.List, record.List(ledger.Task)); have != code.Malformed {
		t.Errorf("a list of tasks: %q", have)
	}
	q := record.List(ledger.Application)
	if q.Agent = "web"; recordstest.Code(w, api.List, q) != code.Invalid {
		t.Error("applications are selected by an agent")
	}
	gone := recordstest.Call(w, api.Delete, record.Delete(ledger.Application, "shop", 0)).Records
	if len(gone) != 1 || gone[0].GetApplication().GetName() != "shop" {
		t.Errorf("deleted %v", gone)
	}
}
