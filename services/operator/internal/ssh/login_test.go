package ssh

import (
	"testing"
)

func TestOnlyWhatCanBeALoginIsOne(t *testing.T) {
	for login, want := range map[string]bool{
		"root@web-1": true, "web-1": true, "ann@10.0.0.7": true, "ssh://ann@web-1:2222": true,
		"": false, "-oProxyCommand=reboot": false, "root@web-1 reboot": false, "root@web\n1": false,
	} {
		if err := CheckLogin(login); (err == nil) != want {
			t.Errorf("%q: %v", login, err)
		}
	}
}
