package sysinfo

import "testing"

func TestTheDistributionIsThatOfItsReleaseFile(t *testing.T) {
	for text, want := range map[string]string{
		"PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\nVERSION_ID=\"12\"\n": "debian 12",
		"ID='arch'\nBUILD_ID=rolling\n":                                       "arch",
		"ID=\"ol\"\r\nVERSION_ID=\"9.4\"\r\nVERSION=\"9.4 (x)\"":              "ol 9.4",
		"":            "",
		"ID=\"\xff\"": "?",
	} {
		if got := release(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
