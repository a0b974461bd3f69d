package sessions_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
	"github.com/rogpeppe/go-internal/testscript"
)

// nfpmCommand is nfpm CONFIG VERSION PACKAGE: it makes a Debian or an RPM package, by the extension of PACKAGE. In
// CONFIG, @VERSION@, @ARCH@ and @WORK@ are replaced.
func nfpmCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: nfpm CONFIG VERSION PACKAGE")
	}
	text := strings.NewReplacer("@VERSION@", args[1], "@ARCH@", runtime.GOARCH, "@WORK@", ts.Getenv("WORK")).
		Replace(ts.ReadFile(args[0]))
	config, err := nfpm.Parse(strings.NewReader(text))
	ts.Check(err)
	format := strings.TrimPrefix(filepath.Ext(args[2]), ".")
	info, err := config.Get(format)
	ts.Check(err)
	packager, err := nfpm.Get(format)
	ts.Check(err)
	f, err := os.Create(ts.MkAbs(args[2]))
	ts.Check(err)
	ts.Check(packager.Package(nfpm.WithDefaults(info), f))
	ts.Check(f.Close())
}
