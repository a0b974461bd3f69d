package page

import (
	"strings"
	"testing"
)

func TestAPageThatCannotBeReadIsRefused(t *testing.T) {
	const good = "- `NO_MATCH` (registry): No image\n  matches.\n  **Try:** garrison image list AGENT"
	tests := []struct{ name, page, want string }{
		{"a code that is there twice", good + "\n" + good, "duplicate code NO_MATCH"},
		{"small letters", strings.Replace(good, "NO_MATCH", "no_match", 1), "no_match"},
		{"no program", strings.Replace(good, "registry", "", 1), "not - `CODE`"},
		{"unknown program", strings.Replace(good, "registry", "access, register", 1), `unknown program "register"`},
		{"a meaning that is no sentence", strings.Replace(good, "matches.", "matches", 1), "not - `CODE`"},
		{"no meaning", strings.Replace(good, "No image\n  matches.", "", 1), "not - `CODE`"},
		{"no remedy", strings.Replace(good, " garrison image list AGENT", "", 1), "not - `CODE`"},
		{"an empty section", "", "not - `CODE`"},
	}
	if _, err := Read("# Codes\n\n## Images\n\n" + good + "\n"); err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Read("# Codes\n\n## Images\n\n" + test.page + "\n")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want an error with %q, have %v", test.want, err)
			}
		})
	}
}
