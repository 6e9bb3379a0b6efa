package apply

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
)

func TestWarnTellsEachComplaintOnce(t *testing.T) {
	complaint := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: "Degraded", Status: status, Reason: reason, Message: strings.Repeat("x", 2000)}}
	}
	fine, first, second := complaint("False", "AsExpected"), complaint("True", "First"), complaint("True", "Second")
	tests := map[string]struct {
		before, after []metav1.Condition
		want          string
	}{
		"new":           {nil, first, "Warning First "},
		"turned":        {fine, first, "Warning First "},
		"the same":      {first, first, ""},
		"other reason":  {first, second, "Warning Second "},
		"went away":     {first, fine, ""},
		"never was any": {nil, fine, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(5)
			Warn(recorder, &corev1.Pod{}, tt.before, tt.after, "Degraded")
			if tt.want == "" {
				require.Empty(t, recorder.Events)
				return
			}
			event := <-recorder.Events
			require.True(t, strings.HasPrefix(event, tt.want), event)
			require.LessOrEqual(t, len(event), noteLimit+len(tt.want))
		})
	}
}
