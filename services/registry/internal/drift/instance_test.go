package drift

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// Metadata that changed since an instance was configured is a difference that a configuration cures, and one that
// cannot be merged is for a person. An instance that differs otherwise has that cause.
func TestMetadataThatChangedSinceIsADifference(t *testing.T) {
	s, i := healthy()
	i.Configuration = &instancev1.Configuration{Digest: []byte{1}}
	i.ObservedConfigurationDigest = []byte{1}
	digest, why := []byte{1}, (*apiv1.Refusal)(nil)
	row := func() *registryv1.Difference {
		at := look(s, i, active())
		at.Merged = func(*instancev1.Instance) ([]byte, *apiv1.Refusal) { return digest, why }
		rows, _ := Of(at, all)
		if len(rows) == 0 {
			return nil
		}
		return rows[0]
	}
	if d := row(); d != nil {
		t.Errorf("%v; want nothing", d)
	}
	digest = []byte{2}
	d := row()
	if d.GetCause() != code.MetadataChanged || d.GetRemedy() != registryv1.Remedy_REMEDY_CONFIGURE ||
		d.GetCure() != "garrison configure web --on web-1" {
		t.Errorf("%v", d)
	}
	why = &apiv1.Refusal{Message: "it breaks the schema", Try: "garrison agent show web"}
	d = row()
	if d.GetCause() != code.MetadataChanged || d.GetRemedy() != registryv1.Remedy_REMEDY_PERSON ||
		d.GetCure() != why.Try || !strings.Contains(d.GetReason(), why.Message) {
		t.Errorf("%v", d)
	}
	i.State, i.Observed, i.ObservedCode = instancev1.State_STATE_DRIFTED, nil, code.LinkMissing
	if d := row(); d.GetCause() != code.LinkMissing {
		t.Errorf("%v; want that its link is missing", d)
	}
}

// What a block refuses is not offered as a cure.
func TestABlockedBuildIsNoCure(t *testing.T) {
	s, i := healthy()
	i.State, i.Observed = instancev1.State_STATE_DRIFTED, nil
	at := look(s, i, active())
	if rows, _ := Of(at, all); len(rows) != 1 || rows[0].GetRemedy() != registryv1.Remedy_REMEDY_UP {
		t.Fatalf("%v; want one to cure by up", rows)
	}
	at.Blocked = func(*instancev1.Instance) *apiv1.Refusal {
		return &apiv1.Refusal{Message: "ann blocked web 1.0.0: it leaks", Try: "garrison unblock b1 -m WHY"}
	}
	rows, _ := Of(at, all)
	if d := rows[0]; d.GetRemedy() != registryv1.Remedy_REMEDY_PERSON || strings.Contains(d.GetCure(), "web@1.0.0") ||
		!strings.Contains(d.GetCure(), "web@VERSION") || !strings.Contains(d.GetReason(), "it leaks") {
		t.Errorf("%v", d)
	}
}
