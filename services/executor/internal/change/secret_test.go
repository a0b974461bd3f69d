package change

import (
	"strings"
	"testing"
)

func TestAReportHoldsNoSecretOfEitherVersion(t *testing.T) {
	r := &Record{
		Secrets: map[string]string{"password": "hunter2"},
		From:    &Instance{Secrets: map[string]string{"password": "hunter1"}},
		Failure: &Failure{Reason: "no login with hunter2", LogTail: "tried hunter2\nand hunter1\n"},
	}
	o := r.Report()
	if text := o.String(); strings.Contains(text, "hunter") || !strings.Contains(text, "<secret password>") {
		t.Errorf("reported %s", text)
	}
}
