package scenario

import (
	"fmt"
	"path/filepath"
	"sync"

	"github.com/garrison-fleet/garrison/e2e/sample"
)

// Image builds, imports and activates a version of beacon, which may misbehave.
func (w *World) Image(version, misbehave string) {
	w.T.Helper()
	v := sample.Version{Version: version, Misbehave: misbehave, Ready: "1m", Soak: "500ms", Stop: "10s"}
	switch misbehave {
	case "never-ready":
		v.Ready = "2s"
	case "exit-later":
		v.Soak = "1m" // it exits after half a second, which a busy machine makes longer
	}
	w.ImportImage(v)
}

// images are the image files that scenarios share: each version is built once.
var images struct {
	sync.Mutex
	dir   string
	files map[sample.Version]string
}

// ImportImage imports and activates a version of beacon.
func (w *World) ImportImage(v sample.Version) {
	w.T.Helper()
	images.Lock()
	file, built := images.files[v]
	if !built {
		dir := filepath.Join(images.dir, fmt.Sprintf("%d-%s", len(images.files), v.Version))
		if err := v.Fill(Bin, dir); err != nil {
			images.Unlock()
			w.T.Fatal(err)
		}
		file = dir + ".gimg"
		if out, err := w.CLI(w.T.Context(), "image", "build", dir, "-o", file); err != nil {
			images.Unlock()
			w.T.Fatalf("%v\n%s", err, out)
		}
		images.files[v] = file
	}
	images.Unlock()
	w.OK("image", "import", file, "--activate")
}
