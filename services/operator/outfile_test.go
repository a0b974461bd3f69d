package operator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each command that writes a file takes its path behind --out, and behind -o too. It prints nothing else than that.
func TestAFileIsWrittenWhereOutOrAPathBehindOSays(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"export", "image build testdata/tools", "image export tools@1.0.0", "rollout plan beacon@2.0.0 --on all",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			r, dir := startRunner(t), annsDirectory(t)
			r.execute(t, dir, "image build testdata/tools --out "+dir+"/tools.gimg")
			r.execute(t, dir, "image import "+dir+"/tools.gimg --activate") // which one of them exports
			files := map[string]string{"--out": filepath.Join(dir, "long.json"), "-o": filepath.Join(dir, "short.json")}
			sizes := map[string]int{}
			for flag, file := range files {
				code, _, said := r.execute(t, dir, line+" "+flag+" "+file)
				data, err := os.ReadFile(file)
				if code != 0 || err != nil || !strings.Contains(said, "written "+file) {
					t.Fatalf("%s %s: exit code %d, %v:\n%s", line, flag, code, err, said)
				}
				sizes[flag] = len(data)
			}
			if sizes["-o"] == 0 || sizes["-o"] != sizes["--out"] {
				t.Errorf("the files have %v bytes", sizes)
			}
		})
	}
}
