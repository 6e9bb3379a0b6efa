package producer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/apply"
	"github.com/workpull/operator/controllers/children"
	"github.com/workpull/operator/controllers/podstate"
)

// state is everything that the plan and the status depend on.
type state struct {
	now      time.Time
	producer *v1alpha1.Producer // with defaults
	invalid  field.ErrorList
	children []apply.Observed // in the order in which they are applied
	workload *workload        // nil when there is none
	pods     []corev1.Pod     // of the producer, by name
	holder   string           // identity of the pod that has the Lease, or ""
}

// observe reads the state.
func (r *Reconciler) observe(ctx context.Context, producer *v1alpha1.Producer) (state, error) {
	producer.SetDefaults()
	s := state{now: r.Clock.Now(), producer: producer, invalid: producer.Validate()}
	if len(s.invalid) == 0 {
		if err := r.observeChildren(ctx, &s); err != nil {
			return s, err
		}
	}
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, client.InNamespace(producer.Namespace), client.MatchingLabels(children.ProducerSelector(producer.Name)))
	if err != nil {
		return s, fmt.Errorf("list producer pods: %w", err)
	}
	s.pods = pods.Items
	slices.SortFunc(s.pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return s, nil
}

func (r *Reconciler) observeChildren(ctx context.Context, s *state) error {
	workload, err := children.Workload(s.producer, r.Image)
	if err != nil {
		return err
	}
	wanted := children.ProducerAccount(s.producer)
	wanted = append(wanted, children.ClusterService(s.producer), children.IntakeService(s.producer))
	wanted = append(wanted, children.StandbyObjects(s.producer)...)
	wanted = append(wanted, workload)
	for _, child := range wanted {
		o, err := apply.Observe(ctx, r.Client, r.Live, s.producer, child)
		if err != nil {
			return err
		}
		s.children = append(s.children, o)
		if o.Live == nil || o.Foreign {
			continue
		}
		if lease, ok := o.Live.(*coordinationv1.Lease); ok {
			s.holder = ptr.Deref(lease.Spec.HolderIdentity, "")
		}
		if w, ok := workloadOf(o.Live); ok {
			s.workload = &w
		}
	}
	return nil
}

// activePod is the ready pod that the intake Service selects, or "".
func (s *state) activePod() string {
	for i := range s.pods {
		pod := &s.pods[i]
		if pod.Labels[v1alpha1.LabelRole] == v1alpha1.RoleActive && pod.DeletionTimestamp == nil && podstate.Ready(pod) {
			return pod.Name
		}
	}
	return ""
}
