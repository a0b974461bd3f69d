package format_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/format"
)

var journal = format.Spec{Kind: "journal", Now: 3, Floor: 2, Oldest: 1}

func TestAFileIsReadWhenItsFloorIsKnown(t *testing.T) {
	for _, c := range []struct {
		have format.Stamp
		want string // the start of the refusal, or empty
	}{
		{format.Stamp{Format: 3, Floor: 2}, ""},
		{format.Stamp{Format: 4, Floor: 3}, ""},
		{format.Stamp{Format: 1, Floor: 1}, ""},
		{format.Stamp{Format: 4, Floor: 4}, "FORMAT_TOO_NEW: journal /x has format 4"},
		{format.Stamp{}, "FORMAT_TOO_OLD: journal /x has format 0"},
	} {
		err := journal.Check("/x", c.have)
		if c.want == "" && err != nil {
			t.Errorf("%+v: %v, want it to be read", c.have, err)
		}
		if c.want != "" && (!fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.have, err, c.want)
		}
	}
}

func TestAFileWithoutNumbersIsReadWhereThatIsAllowed(t *testing.T) {
	unnumbered := format.Spec{Kind: "context", Now: 1, Floor: 1}
	if err := unnumbered.Check("/x", format.Stamp{}); err != nil {
		t.Error(err)
	}
}

func TestAStampStandsBesideTheFieldsOfItsFile(t *testing.T) {
	file := struct {
		format.Stamp
		Name string `json:"name"`
	}{journal.Stamp(), "n"}
	have, err := json.Marshal(file)
	if err != nil || string(have) != `{"format":3,"format_floor":2,"name":"n"}` {
		t.Errorf("%s, %v", have, err)
	}
}
