/* The compiler must warn of the handler, whose name has a typo. */
#include "informant.h"

const char informant_manifest[] = "{}";

informant_result informant_on_ad(const informant_event *event, json object) {
    (void)event, (void)object;
    return informant_ok();
}
