package variables_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/services/executor/internal/variables"
)

func TestAVariableWalksIntoANestedValue(t *testing.T) {
	log, err := metadata.FromJSON(`{"file": {"path": "/a", "keep": 3}, "on": true, "a.b": 1, "list": [1, "x"]}`)
	if err != nil {
		t.Fatal(err)
	}
	port, err := metadata.FromJSON("8080")
	if err != nil {
		t.Fatal(err)
	}
	v := variables.Facts{Metadata: map[string]string{"log": log, "port": port, "level": "info"}}.Values()
	got, err := v.Fill(&imagev1.Run{Args: []string{
		"${metadata.log.file.path}:${metadata.log.file.keep}:${metadata.log.on}", "${metadata.log.list}",
		"${metadata.log.file}", "${metadata.port}", "${metadata.level}",
	}})
	want := []string{"/a:3:true", `[1,"x"]`, `{"keep":3,"path":"/a"}`, "8080", "info"}
	if diff := cmp.Diff(want, got.Args); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, name := range []string{"metadata.log.none", "metadata.log.a.b", "metadata.level.x", "metadata.log.list.0"} {
		_, err := v.Fill(&imagev1.Run{Args: []string{"${" + name + "}"}})
		if fault.RefusalOf(err).GetCode() != "UNKNOWN_VARIABLE" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
