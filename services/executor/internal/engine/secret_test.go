package engine

import (
	"strings"
	"testing"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/secret"
)

func TestASecretIsRenderedInClear(t *testing.T) {
	t.Parallel()
	key, err := secret.ParseKey(secret.NewKeyText())
	if err != nil {
		t.Fatal(err)
	}
	sealed := values{"level": key.Seal("level", "hunter2")}
	r, m := configuredBench(t, configured(imagev1.Reload_RELOAD_UNSPECIFIED))
	task := r.wantWith(m, configure, sealed)
	r.doc.Entries[0].Secrets = values{"level": "hunter2"}
	outcome(t, r.do(task), good)
	if have := r.rendered(); !strings.HasPrefix(have, "level = hunter2\n") {
		t.Errorf("rendered %q", have)
	}
	task = r.wantWith(m, configure, values{"level": key.Seal("level", "another")})
	r.doc.Entries[0].Secrets = nil
	if o := outcome(t, r.do(task), undone); o.GetCode() != code.SecretMissing {
		t.Errorf("a document without the secret: %v", o)
	}
	if have := r.rendered(); !strings.HasPrefix(have, "level = hunter2\n") {
		t.Errorf("then it is %q", have)
	}
}
