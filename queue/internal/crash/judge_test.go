package crash_test

import (
	"strings"
	"testing"

	"github.com/workpull/operator/queue/internal/crash"
)

// TestJudge: the judge finds each thing that must not happen, and nothing else.
func TestJudge(t *testing.T) {
	const whole = "1 stored a\n1 run a\n2 run a\n2 ran a\n2 confirmed a\n2 fenced x\n"
	for name, c := range map[string]struct{ log, breach string }{
		"all is well":                   {whole, ""},
		"a job that nobody was told of": {whole + "2 offered b\n", ""},
		"a repeated notice":             {whole + "3 confirmed a\n", ""},
		"a lost job":                    {whole + "2 stored b\n", "b was acknowledged, and never done"},
		"a job that never ended":        {whole + "2 stored b\n2 run b\n", "b was acknowledged, and never done"},
		"a run without a kill":          {"1 stored a\n1 run a\n1 run a\n1 ran a\n", "a runs twice in life 1"},
		"a run after its confirmation":  {whole + "3 run a\n", "a runs again in life 3, and was confirmed before"},
		"a confirmation of nothing":     {"1 stored a\n1 confirmed a\n1 run a\n1 ran a\n", "a is confirmed, and no worker did it"},
		"a fenced write that was done":  {whole + "2 unfenced y\n", "y was written by a writer that another had fenced"},
		"a fenced write that is there":  {whole + "3 run x\n3 ran x\n", "x runs, and its writer was fenced"},
		"a failure":                     {whole + "3 failed it is on fire\n", "life 3 failed: it is on fire"},
	} {
		t.Run(name, func(t *testing.T) {
			lines, err := crash.ReadLog(strings.NewReader(c.log))
			if err != nil {
				t.Fatal(err)
			}
			breaches := crash.Judge(lines).Breaches
			if c.breach == "" && len(breaches) > 0 || c.breach != "" && (len(breaches) == 0 || !strings.Contains(breaches[0], c.breach)) {
				t.Errorf("%q, wanted %q", breaches, c.breach)
			}
		})
	}
	for _, bad := range []string{"x stored a\n", "1 stored\n", "\n"} {
		if _, err := crash.ReadLog(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
